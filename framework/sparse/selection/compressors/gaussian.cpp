// The first k of at least the threshold that k of n values would pass if they were normal, with the
// mean and the deviation that they have.
#include <cmath>
#include <limits>

#include "framework/sparse/selection/compressors/first_above.h"
#include "framework/sparse/selection/compressors/lane_sum.h"
#include "framework/sparse/selection/compressors/make.h"

namespace ndtrain::compressors {
namespace {

// What part of a standard normal variable's values lies further out, on both sides.
double beyond(double z) { return std::erfc(z / std::sqrt(2.0)); }

double threshold_of_part(double part) {
  double low = 0, high = 40;  // beyond(40) is 0 in double
  for (int i = 0; i < 60; ++i) {
    const double z = (low + high) / 2;
    (beyond(z) > part ? low : high) = z;
  }
  return high;
}

class Gaussian : public Compressor {
 public:
  explicit Gaussian(const CompressorOptions& options) : options_(options) {}

 private:
  void take_some(std::span<float> values, int64_t k, const Rng& /*rng*/, CompressorState& state,
                 CompressorScratch& /*scratch*/, Selection& out) const override {
    const auto n = static_cast<double>(values.size());
    const double mean = lane_sum(values, [](float x) { return static_cast<double>(x); }) / n;
    const double variance =
        lane_sum(values, [mean](float x) { return (x - mean) * (x - mean); }) / n;
    const double t =
        std::fabs(mean) + std::sqrt(variance) * threshold_of_part(static_cast<double>(k) / n);
    // Values that are not finite have no deviation: of the rest, the first ones.
    const float threshold = std::isfinite(t) ? static_cast<float>(t) : 0.0F;
    take_above(values, threshold, k, options_, state, out);
  }

  CompressorOptions options_;
};

}  // namespace

std::unique_ptr<Compressor> gaussian(const CompressorOptions& options) {
  return std::make_unique<Gaussian>(options);
}

}  // namespace ndtrain::compressors
