// Blocks of 16 elements by their sums of magnitudes: the first of at least a threshold, until there
// are k elements; the last block is cut. The threshold begins as the (k / 16)-th largest sum and
// rises, by the same hundredth of it for ever, when a pass found k elements; else it falls by a
// hundredth, and the blocks with the largest of the other sums fill up.
#include <algorithm>
#include <bit>

#include "framework/sparse/selection/compressors/make.h"
#include "framework/sparse/selection/magnitude.h"

namespace ndtrain::compressors {
namespace {

constexpr int64_t kBlocksAtOnce = 512;  // blocks that are looked at once: 32 KiB of values

// A tensor as blocks, of which the last may be shorter.
struct Blocks {
  int64_t elements = 0;
  int64_t count() const { return (elements + kBlockElements - 1) / kBlockElements; }
  int64_t size_of(int64_t block) const {
    return std::min<int64_t>(kBlockElements, elements - block * kBlockElements);
  }
};

// Blocks that are taken, in the order in which they are, and the elements in them.
struct Taken {
  std::vector<uint32_t> blocks;
  int64_t elements = 0;
  void add(const Blocks& all, int64_t block) {
    blocks.push_back(static_cast<uint32_t>(block));
    elements += all.size_of(block);
  }
};

// One pass over a tensor, for k elements.
class Pass {
 public:
  // `sums_known`: scratch.sums has those of all blocks already.
  Pass(std::span<const float> values, int64_t k, float threshold, InstructionSet set,
       bool sums_known, CompressorScratch& scratch)
      : values_(values),
        all_{.elements = static_cast<int64_t>(values.size())},
        k_(k),
        threshold_(threshold),
        set_(set),
        sums_known_(sums_known),
        scratch_(scratch) {}

  const Taken& taken() const { return taken_; }
  bool complete() const { return taken_.elements >= k_; }

  // Of blocks [begin, end) those of at least the threshold, until there are k elements. Returns
  // behind the last that was looked at.
  int64_t take_first(int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kBlocksAtOnce) {
      const std::span<const float> sums = sums_of(at, std::min(kBlocksAtOnce, end - at));
      scratch_.masks.resize((sums.size() + kBlockElements - 1) / kBlockElements);
      mask_at_least(sums, threshold_, scratch_.masks, set_);
      for (size_t g = 0; g < scratch_.masks.size(); ++g) {
        for (unsigned mask = scratch_.masks[g]; mask != 0; mask &= mask - 1) {
          const int64_t block =
              at + static_cast<int64_t>(g) * kBlockElements + std::countr_zero(mask);
          taken_.add(all_, block);
          if (complete()) return block + 1;
        }
      }
    }
    return end;
  }

  // All have been looked at: of the others those with the largest sums, of equal ones the first,
  // until there are k elements. The last in this order is the last in taken().
  void fill_up() {
    // A short block among them makes one more necessary. Most lie near the threshold.
    const int64_t needed = (k_ - taken_.elements + kBlockElements - 1) / kBlockElements + 1;
    std::vector<uint32_t> others;
    for (const float part : {0.9F, 0.5F, 0.0F}) {
      others = below_threshold(part * threshold_);
      if (static_cast<int64_t>(others.size()) >= needed) break;
    }
    std::vector<float> sums(others.size());
    for (size_t i = 0; i < others.size(); ++i) sums[i] = scratch_.sums[others[i]];
    const uint32_t least =
        nth_magnitude(sums, std::min(needed, static_cast<int64_t>(others.size())) - 1, set_);
    std::vector<uint32_t> larger, equal;
    for (size_t i = 0; i < others.size(); ++i) {
      if (magnitude(sums[i]) > least) larger.push_back(others[i]);
      if (magnitude(sums[i]) == least) equal.push_back(others[i]);
    }
    std::stable_sort(larger.begin(), larger.end(), [this](uint32_t a, uint32_t b) {
      return scratch_.sums[a] > scratch_.sums[b];
    });
    for (const std::vector<uint32_t>& blocks : {larger, equal}) {
      for (size_t i = 0; i < blocks.size() && !complete(); ++i) taken_.add(all_, blocks[i]);
    }
  }

 private:
  std::span<const float> sums_of(int64_t block, int64_t count) {
    const std::span<float> sums = std::span(scratch_.sums).subspan(block, count);
    const int64_t first = block * kBlockElements;
    const int64_t last = std::min((block + count) * kBlockElements, all_.elements);
    if (!sums_known_) block_sums(values_.subspan(first, last - first), sums, set_);
    return sums;
  }

  // Blocks with sums of at least `least`.
  std::vector<uint32_t> below_threshold(float least) {
    const std::span<const float> sums = scratch_.sums;
    scratch_.masks.resize((sums.size() + kBlockElements - 1) / kBlockElements);
    mask_at_least(sums, least, scratch_.masks, set_);
    std::vector<uint32_t> blocks;
    for (size_t g = 0; g < scratch_.masks.size(); ++g) {
      for (unsigned mask = scratch_.masks[g]; mask != 0; mask &= mask - 1) {
        const size_t block = g * kBlockElements + std::countr_zero(mask);
        if (sums[block] < threshold_) blocks.push_back(static_cast<uint32_t>(block));
      }
    }
    return blocks;
  }

  std::span<const float> values_;
  Blocks all_;
  int64_t k_;
  float threshold_;
  InstructionSet set_;
  bool sums_known_;
  CompressorScratch& scratch_;
  Taken taken_;
};

// The elements of blocks, rising, but for those of the last that are too many.
std::vector<uint32_t> indices_of(const Blocks& all, const Taken& taken, int64_t k) {
  const uint32_t cut = taken.blocks.back();
  const int64_t too_many = taken.elements - k;
  std::vector<uint32_t> blocks = taken.blocks;
  if (!std::is_sorted(blocks.begin(), blocks.end())) std::sort(blocks.begin(), blocks.end());
  std::vector<uint32_t> indices;
  indices.reserve(k);
  for (const uint32_t block : blocks) {
    const int64_t size = all.size_of(block) - (block == cut ? too_many : 0);
    for (int64_t i = 0; i < size; ++i) {
      indices.push_back(static_cast<uint32_t>(block * int64_t{kBlockElements} + i));
    }
  }
  return indices;
}

class ThresholdV16 : public Compressor {
 public:
  explicit ThresholdV16(const CompressorOptions& options) : options_(options) {}

 private:
  void take_some(std::span<float> values, int64_t k, const Rng& /*rng*/, CompressorState& state,
                 CompressorScratch& scratch, Selection& out) const override {
    const Blocks all{.elements = static_cast<int64_t>(values.size())};
    scratch.sums.resize(all.count());
    const bool first = state.threshold <= 0;
    if (first) set_threshold(values, k, all, state, scratch);
    Pass pass(values, k, state.threshold, options_.instructions, first, scratch);
    const int64_t begin =
        options_.rotate && state.begin < all.elements ? state.begin / kBlockElements : 0;
    int64_t stopped = pass.take_first(begin, all.count());
    if (!pass.complete()) stopped = pass.take_first(0, begin);
    if (pass.complete()) {
      state.threshold += state.increment;
    } else {
      pass.fill_up();
      state.threshold *= 0.99F;
    }
    state.begin = options_.rotate && stopped < all.count() ? stopped * kBlockElements : 0;
    move_out(values, indices_of(all, pass.taken(), k), out);
  }

  // While it would be 0 it stays unset: a threshold of 0 would take the same blocks for ever.
  void set_threshold(std::span<const float> values, int64_t k, const Blocks& all,
                     CompressorState& state, CompressorScratch& scratch) const {
    block_sums(values, scratch.sums, options_.instructions);
    const int64_t number = std::min(k / kBlockElements, all.count() - 1);
    const uint32_t sum = nth_magnitude(scratch.sums, number, options_.instructions);
    state.threshold =
        of_magnitude(sum < kInfiniteMagnitude ? sum : largest_finite_magnitude(scratch.sums));
    state.increment = 0.01F * state.threshold;
  }

  CompressorOptions options_;
};

}  // namespace

std::unique_ptr<Compressor> threshold_v16(const CompressorOptions& options) {
  return std::make_unique<ThresholdV16>(options);
}

}  // namespace ndtrain::compressors
