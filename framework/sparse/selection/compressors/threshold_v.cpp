// The first k of at least a threshold, which begins as the k-th largest magnitude and follows what
// a pass finds: too few, it falls by a hundredth; k before the end, it rises by a hundredth of the
// largest magnitude.
#include <algorithm>

#include "framework/sparse/selection/compressors/first_above.h"
#include "framework/sparse/selection/compressors/make.h"
#include "framework/sparse/selection/magnitude.h"

namespace ndtrain::compressors {
namespace {

class ThresholdV : public Compressor {
 public:
  explicit ThresholdV(const CompressorOptions& options) : options_(options) {}

 private:
  void take_some(std::span<float> values, int64_t k, const Rng& /*rng*/, CompressorState& state,
                 CompressorScratch& /*scratch*/, Selection& out) const override {
    // Thresholds are made of finite values, so that one that is not does not stay in them.
    if (state.threshold <= 0) {
      const uint32_t kth = nth_magnitude(values, k - 1, options_.instructions);
      state.threshold =
          of_magnitude(kth < kInfiniteMagnitude ? kth : largest_finite_magnitude(values));
    }
    const TakenAbove taken = take_above(values, state.threshold, k, options_, state, out);
    if (taken.short_of) state.threshold *= 0.99F;
    if (taken.before_end) {
      const uint32_t largest =
          std::max(largest_finite_magnitude(values), largest_finite_magnitude(out.values));
      state.threshold += 0.01F * of_magnitude(largest);
    }
  }

  CompressorOptions options_;
};

}  // namespace

std::unique_ptr<Compressor> threshold_v(const CompressorOptions& options) {
  return std::make_unique<ThresholdV>(options);
}

}  // namespace ndtrain::compressors
