// Regression with a Gaussian process (Rasmussen and Williams, "Gaussian Processes for Machine
// Learning", algorithm 2.1): variance x Matern-5/2 with a length for each coordinate, and noise.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "framework/core/rng.h"
#include "framework/numeric/cholesky.h"

namespace ndtrain {

class GaussianProcess {
 public:
  // Of values whose mean is 0 and whose deviation is 1.
  struct Hyper {
    double variance = 1;
    std::vector<double> lengths;  // of the coordinates
    double noise = 1e-6;          // variance that is added to a value's own
  };

  // Values y at the points x, under known hyper-parameters. Throws Error: no points, other numbers
  // of points, values, coordinates or lengths, a hyper-parameter not above 0, values that are not
  // finite, a matrix that is singular to rounding.
  void observe(std::span<const std::vector<double>> x, std::span<const double> y, Hyper hyper);

  // The same under those of the greatest likelihood that nelder_mead() finds from one beginning and
  // two random ones: variance 1e-3 to 1e3, lengths 1e-2 to 1e2, noise 1e-8 to 1. Points are to be
  // scaled to about 1.
  void fit(std::span<const std::vector<double>> x, std::span<const double> y, Rng rng);

  struct Prediction {
    double mean = 0, deviation = 0;  // of the function, without noise
  };
  // Throws Error before there are observations, or of another number of coordinates.
  Prediction predict(std::span<const double> x) const;

  const Hyper& hyper() const { return hyper_; }
  // Of the values with mean 0 and deviation 1, under the hyper-parameters.
  double log_likelihood() const { return log_likelihood_; }

 private:
  void take(std::span<const std::vector<double>> x, std::span<const double> y);
  bool condition(const Hyper& hyper);  // false: the matrix is singular to rounding

  std::vector<std::vector<double>> x_;
  std::vector<double> y_;  // normalised
  double mean_ = 0, deviation_ = 1;
  Hyper hyper_;
  std::optional<Cholesky> covariance_;
  std::vector<double> weights_;  // covariance^-1 y
  double log_likelihood_ = 0;
};

}  // namespace ndtrain
