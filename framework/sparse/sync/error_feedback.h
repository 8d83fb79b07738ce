// What was not sent is added to the next gradient (Seide et al., "1-bit stochastic gradient
// descent", Interspeech 2014; Stich et al., "Sparsified SGD with memory", 2018). With momentum it
// is that of a rank's gradients, before anything is left out of them (Lin et al., "Deep gradient
// compression", ICLR 2018: momentum correction and momentum factor masking).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/sparse/selection/compressor.h"
#include "framework/sparse/selection/value_coding.h"
#include "framework/train/parameter_space.h"

namespace ndtrain {

// Of all slots, on one rank. One slot by one thread at a time.
class ErrorFeedback {
 public:
  // With more than one each tensor is cut into so many, as equal as can be, and at its n-th take a
  // rank takes of number (n + rank) mod count alone: each rank of another.
  struct Pieces {
    int count = 1;
    int rank = 0;  // this one, below count
  };

  // `seed` is the same on all ranks; values are rounded to `wire` when they travel. `momentum` is 0
  // or above, and below 1.
  ErrorFeedback(std::span<const ParameterSlot> slots, std::unique_ptr<Compressor> compressor,
                uint64_t seed, ValueCoding wire, double momentum, Pieces pieces);
  ErrorFeedback(std::span<const ParameterSlot> slots, std::unique_ptr<Compressor> compressor,
                uint64_t seed, ValueCoding wire, double momentum = 0)
      : ErrorFeedback(slots, std::move(compressor), seed, wire, momentum, Pieces{}) {}

  // u = g + r: `gradient` is added to what is left of the slot. With momentum m: v = m v + g, u =
  // v + r, and v of what is taken is 0.
  void add(size_t slot, std::span<const float> gradient);
  // Takes k elements of u, as they will be received (value_coding.h); r is the rest, and what
  // rounding leaves. What a 16-bit float cannot hold is sent as its largest.
  void take(size_t slot, int64_t k, CompressorScratch& scratch, Selection& out);

  // Puts back what was taken of the slot, at these places of `taken`.
  void put_back(size_t slot, const Selection& taken, std::span<const size_t> places);

  // How many elements a rank takes when it is asked for k of the slot next.
  int64_t elements(size_t slot, int64_t k, int rank) const;
  // Whether ranks know each other's indices, so that only values travel.
  bool indices_are_known() const { return compressor_->indices_are_known() && pieces_.count == 1; }
  std::span<const float> left(size_t slot) const { return slots_[slot].left; }

  // By parameter: "layer1.weight.residual", with momentum "layer1.weight.velocity", and of the
  // compressor "layer1.weight.threshold" (of each piece it, its increment) and "layer1.weight.pass"
  // (where it begins, its number); of pieces "layer1.weight.takes", so far.
  std::map<std::string, Tensor> state() const;
  // Where it is of another number of pieces, compressors begin anew. Throws Error where the rest
  // does not fit.
  void restore(const std::map<std::string, Tensor>& state);
  void forget();         // nothing is left, and compressors begin anew
  void forget_passes();  // compressors begin anew: some rank does not know where they were

 private:
  struct Slot {
    std::string name;
    Shape shape;
    Rng rng;
    std::vector<float> left;
    std::vector<float> velocity;          // empty: no momentum
    std::vector<CompressorState> states;  // of each piece
    int64_t takes = 0;
  };
  ParameterRange piece(const Slot& slot, int rank) const;  // that is the rank's next
  void restore_passes(const std::map<std::string, Tensor>& state, Slot& slot) const;

  std::unique_ptr<Compressor> compressor_;
  const ValueCoding wire_;
  const float momentum_;
  const Pieces pieces_;
  std::vector<Slot> slots_;
};

}  // namespace ndtrain
