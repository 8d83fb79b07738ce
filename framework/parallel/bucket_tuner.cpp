#include "framework/parallel/bucket_tuner.h"

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

const BucketTuner::Options& checked(const BucketTuner::Options& o) {
  if (o.least_bytes < 1 || o.first_bytes < o.least_bytes || o.most_bytes < o.first_bytes ||
      o.least_bytes == o.most_bytes) {
    throw Error("bucket tuner: begins at ", o.first_bytes, " bytes, of ", o.least_bytes, " to ",
                o.most_bytes);
  }
  if (o.trials < 1 || o.counted < 1 || o.counted > o.steps) {
    throw Error("bucket tuner: ", o.trials, " trials of ", o.steps, " steps, of which ", o.counted,
                " count");
  }
  return o;
}

double logarithm(int64_t bytes) { return std::log2(static_cast<double>(bytes)); }

}  // namespace

BucketTuner::BucketTuner(Rng rng, Options options)
    : options_(checked(options)),
      search_({.low = {logarithm(options.least_bytes)}, .high = {logarithm(options.most_bytes)}},
              rng, {.xi = options.xi}),
      bucket_bytes_(options.first_bytes) {}

bool BucketTuner::step_took(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) {
    throw Error("bucket tuner: a step took ", seconds, " seconds");
  }
  if (done()) return false;
  ++steps_;
  if (steps_ > options_.steps - options_.counted) counted_s_ += seconds;
  if (steps_ < options_.steps) return false;

  const double tried[] = {logarithm(bucket_bytes_)};
  search_.tell(tried, counted_s_ / options_.counted);
  ++trials_;
  steps_ = 0;
  counted_s_ = 0;
  const double next = done() ? search_.best().at[0] : search_.ask()[0];
  const int64_t before = bucket_bytes_;
  bucket_bytes_ = std::clamp(static_cast<int64_t>(std::llround(std::exp2(next))),
                             options_.least_bytes, options_.most_bytes);
  return bucket_bytes_ != before;
}

}  // namespace ndtrain
