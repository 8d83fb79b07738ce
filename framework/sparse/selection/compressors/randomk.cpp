// k elements without replacement. All ranks draw the same ones, so indices need not travel.
#include "framework/core/error.h"
#include "framework/sparse/selection/compressors/make.h"

namespace ndtrain {

std::vector<uint32_t> known_indices(int64_t n, int64_t k, const Rng& rng, int64_t step) {
  if (k < 1 || k > n) throw Error("randomk: ", k, " of ", n, " elements cannot be drawn");
  // Floyd's algorithm (Bentley and Floyd, "A sample of brilliance", CACM 30/9, 1987): of what there
  // is less of, those taken or those left.
  Rng draw(rng.bits(static_cast<uint64_t>(step)));
  const bool take = k <= n / 2;
  const int64_t fewer = take ? k : n - k;
  std::vector<bool> drawn(n, false);
  for (int64_t last = n - fewer; last < n; ++last) {
    const auto i = static_cast<int64_t>(draw.next_below(last + 1));
    drawn[drawn[i] ? last : i] = true;
  }
  std::vector<uint32_t> indices;
  indices.reserve(k);
  for (int64_t i = 0; i < n; ++i) {
    if (drawn[i] == take) indices.push_back(static_cast<uint32_t>(i));
  }
  return indices;
}

namespace compressors {
namespace {

class RandomK : public Compressor {
 public:
  explicit RandomK(bool unbiased) : unbiased_(unbiased) {}
  bool indices_are_known() const override { return true; }

 private:
  void take_some(std::span<float> values, int64_t k, const Rng& rng, CompressorState& state,
                 CompressorScratch& /*scratch*/, Selection& out) const override {
    const auto n = static_cast<int64_t>(values.size());
    move_out(values, known_indices(n, k, rng, state.step), out);
    if (!unbiased_) return;
    const float scale = static_cast<float>(n) / static_cast<float>(k);
    for (float& x : out.values) x *= scale;
  }

  bool unbiased_;
};

}  // namespace

std::unique_ptr<Compressor> randomk(const CompressorOptions& options) {
  return std::make_unique<RandomK>(options.unbiased);
}

}  // namespace compressors
}  // namespace ndtrain
