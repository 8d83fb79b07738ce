// What was not sent is added to the next gradient (Seide et al., "1-bit stochastic gradient
// descent", Interspeech 2014; Stich et al., "Sparsified SGD with memory", 2018). With momentum it
// is that of a rank's gradients, before anything is left out of them (Lin et al., "Deep gradient
// compression", ICLR 2018: momentum correction and momentum factor masking).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/core/dtype.h"
#include "framework/core/tensor.h"
#include "framework/sparse/selection/compressor.h"
#include "framework/train/parameter_space.h"

namespace ndtrain {

// Of all slots, on one rank. One slot by one thread at a time.
class ErrorFeedback {
 public:
  // `seed` is the same on all ranks; values are rounded to `wire` when they travel. `momentum` is 0
  // or above, and below 1.
  ErrorFeedback(std::span<const ParameterSlot> slots, std::unique_ptr<Compressor> compressor,
                uint64_t seed, DType wire, double momentum = 0);

  // u = g + r: `gradient` is added to what is left of the slot. With momentum m: v = m v + g, u =
  // v + r, and v of what is taken is 0.
  void add(size_t slot, std::span<const float> gradient);
  // Takes k elements of u, as they will be received; r is the rest, and what rounding leaves. What
  // a 16-bit float cannot hold is sent as its largest.
  void take(size_t slot, int64_t k, CompressorScratch& scratch, Selection& out);

  const Compressor& compressor() const { return *compressor_; }
  std::span<const float> left(size_t slot) const { return slots_[slot].left; }

  // By parameter: "layer1.weight.residual", with momentum "layer1.weight.velocity", and of the
  // compressor "layer1.weight.threshold" (it, its increment) and "layer1.weight.pass" (where it
  // begins, its number).
  std::map<std::string, Tensor> state() const;
  // Throws Error where it does not fit.
  void restore(const std::map<std::string, Tensor>& state);
  void forget();  // nothing is left, and compressors begin anew

 private:
  struct Slot {
    std::string name;
    Shape shape;
    Rng rng;
    std::vector<float> left;
    std::vector<float> velocity;  // empty: no momentum
    CompressorState state;
  };

  std::unique_ptr<Compressor> compressor_;
  const DType wire_;
  const float momentum_;
  std::vector<Slot> slots_;
};

}  // namespace ndtrain
