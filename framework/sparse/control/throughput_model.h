// How fast a rank computes, by its batch (StellaTrain, section 4): f(x) = min(beta x / alpha, beta)
// rows/s. Below alpha rows a step takes as long as one of alpha; above, the device is full.
#pragma once

#include <span>

namespace ndtrain {

struct ThroughputModel {
  double alpha = 16;  // rows
  double beta = 100;  // rows/s

  double rows_per_s(double batch) const;
  // batch / f(batch): seconds of a backward pass, since it is those that throughputs are of. It is
  // max(batch, alpha) / beta.
  double backward_s(double batch) const;
};

struct ThroughputPoint {
  double batch = 0, rows_per_s = 0;
};

struct ThroughputBounds {
  // StellaTrain's, for GPUs. A rank that is slower than `beta` rows/s however large its batch is
  // cannot be described so: it needs a lower one.
  double alpha = 16, beta = 100;
};

// Least squares by Nelder-Mead from `begin` and from points that are on the bend; no less than the
// bounds. Where all points are below the bend, beta / alpha alone is known: alpha is then about the
// largest batch. Throws Error: no points, a batch or throughput that is not above 0 and finite.
ThroughputModel fit_throughput(std::span<const ThroughputPoint> points,
                               const ThroughputModel& begin, const ThroughputBounds& bounds = {});

// The root of the mean square of f / throughput - 1.
double relative_error(const ThroughputModel& model, std::span<const ThroughputPoint> points);

}  // namespace ndtrain
