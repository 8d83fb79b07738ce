// Which elements of a gradient travel: StellaTrain (Lim et al., SIGCOMM'24, section 3.2) and what
// it compares with. A compressor takes exactly as many as it is asked for, so that all ranks know
// how much to expect.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "framework/core/rng.h"
#include "framework/sparse/selection/scan.h"
#include "framework/sparse/selection/selection.h"

namespace ndtrain {

struct CompressorOptions {
  bool rotate = false;  // a pass begins where the last one stopped; else with the first element
  // By randomk: values times n / k, so that their mean is the gradient's. Not with error feedback.
  bool unbiased = false;
  InstructionSet instructions = instruction_sets_here().back();  // any gives the same
};

// Of one tensor on one rank, from step to step; in checkpoints.
struct CompressorState {
  float threshold = 0;  // 0: none yet
  float increment = 0;  // of the threshold
  int64_t begin = 0;    // the element that the next pass begins with
  int64_t step = 0;     // that is to come
};

// For one call at a time; keeps its memory.
struct CompressorScratch {
  std::vector<float> sums;
  std::vector<uint16_t> masks;
  std::vector<float> exact;  // of ErrorFeedback: values before they were rounded

  // What a tensor of so many elements needs is there before the first step, whose time it would be.
  void make_room(int64_t elements) {
    sums.resize(static_cast<size_t>((elements + kBlockElements - 1) / kBlockElements));
  }
};

class Compressor {
 public:
  virtual ~Compressor() = default;

  // Moves min(k, n) elements of the n `values` into `out`, bit for bit; zeros stay behind, so what
  // is left is what was not sent. (Where it takes_all(), signs: see make_compressor().) NaN counts
  // as the largest. A function of values, k, state and `rng`, of which each tensor has its own, the
  // same on all ranks. k >= 1, or Error.
  void take(std::span<float> values, int64_t k, const Rng& rng, CompressorState& state,
            CompressorScratch& scratch, Selection& out) const;

  // Whether it takes something of every element, whatever k is.
  virtual bool takes_all() const { return false; }
  // Whether ranks know each other's indices, known_indices(), so that only values travel.
  virtual bool indices_are_known() const { return false; }

 private:
  // 0 < k < n, but where it takes_all().
  virtual void take_some(std::span<float> values, int64_t k, const Rng& rng, CompressorState& state,
                         CompressorScratch& scratch, Selection& out) const = 0;
};

// - topk: the k largest magnitudes; of equal ones, the first.
// - randomk: any k, by `rng` and the step.
// - threshold-v: the first k of at least a threshold, and where there are fewer, the first of the
//   rest; the threshold follows what was found (StellaTrain).
// - threshold-v16: the same of blocks of 16 elements, by their sums of
//   magnitudes; where there are fewer, the blocks with the largest sums fill up.
// - gaussian: the first k of at least the threshold that k of n normal values would pass (Shi et
//   al., "Understanding Top-k Sparsification", arXiv:1911.08772), filled up as threshold-v.
// - signum, efsignum: a sign for every element, times the mean magnitude (Bernstein et al.,
//   "signSGD", arXiv:1802.04434; Karimireddy et al., "Error feedback fixes SignSGD",
//   arXiv:1901.09847). Both take all; signum leaves zeros behind, efsignum what it did not take.
// Throws Error with what there is.
std::unique_ptr<Compressor> make_compressor(std::string_view name,
                                            const CompressorOptions& options = {});
std::span<const std::string_view> compressor_names();

// How many elements of a tensor of n a rank sends: all where nothing is dropped, else
// max(1, floor(n (1 - drop) / ranks)), reckoned in double. Throws Error unless 0 <= drop < 1,
// ranks >= 1 and 1 <= n <= limits::kSparseElements.
int64_t elements_to_send(int64_t n, double drop, int ranks);

// k of n indices, rising, each set of them as likely: what randomk takes at `step`.
std::vector<uint32_t> known_indices(int64_t n, int64_t k, const Rng& rng, int64_t step);

}  // namespace ndtrain
