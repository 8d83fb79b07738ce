// The k elements of the largest magnitude; of equal ones, those of the lower indices.
#include <algorithm>

#include "framework/sparse/selection/compressors/make.h"
#include "framework/sparse/selection/magnitude.h"

namespace ndtrain::compressors {
namespace {

class TopK : public Compressor {
 public:
  explicit TopK(InstructionSet set) : set_(set) {}

 private:
  void take_some(std::span<float> values, int64_t k, const Rng& /*rng*/, CompressorState& /*state*/,
                 CompressorScratch& /*scratch*/, Selection& out) const override {
    const uint32_t least = nth_magnitude(values, k - 1, set_);
    // Of NaN, where it is one, not all are taken.
    std::vector<uint32_t> indices =
        indices_at_least(values, std::min(least, kInfiniteMagnitude), set_);
    const auto is_larger = [&](uint32_t i) { return magnitude(values[i]) > least; };
    auto equal = k - std::ranges::count_if(indices, is_larger);
    std::erase_if(indices, [&](uint32_t i) {
      const uint32_t bits = magnitude(values[i]);
      return bits < least || (bits == least && equal-- <= 0);
    });
    move_out(values, std::move(indices), out);
  }

  InstructionSet set_;
};

}  // namespace

std::unique_ptr<Compressor> topk(const CompressorOptions& options) {
  return std::make_unique<TopK>(options.instructions);
}

}  // namespace ndtrain::compressors
