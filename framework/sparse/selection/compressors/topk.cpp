// The k elements of the largest magnitude; of equal ones, those of the lower indices.
#include "framework/sparse/selection/compressors/make.h"
#include "framework/sparse/selection/magnitude.h"

namespace ndtrain::compressors {
namespace {

class TopK : public Compressor {
  void take_some(std::span<float> values, int64_t k, const Rng& /*rng*/, CompressorState& /*state*/,
                 CompressorScratch& /*scratch*/, Selection& out) const override {
    const uint32_t least = nth_magnitude(values, k - 1);
    auto equal = k;
    for (const float x : values) equal -= magnitude(x) > least ? 1 : 0;
    std::vector<uint32_t> indices;
    indices.reserve(k);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t bits = magnitude(values[i]);
      if (bits < least || (bits == least && equal-- <= 0)) continue;
      indices.push_back(static_cast<uint32_t>(i));
    }
    move_out(values, std::move(indices), out);
  }
};

}  // namespace

std::unique_ptr<Compressor> topk(const CompressorOptions& /*options*/) {
  return std::make_unique<TopK>();
}

}  // namespace ndtrain::compressors
