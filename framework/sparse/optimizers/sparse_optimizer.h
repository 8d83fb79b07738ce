// Optimizers that touch only the elements that a step has gradients for (StellaTrain, Lim et al.,
// SIGCOMM'24, section 3.1): values, momentum and moments of all others stay as they are.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/runtime/executor.h"
#include "framework/sparse/selection/selection.h"
#include "framework/train/optimizer.h"

namespace ndtrain {

struct SparseOptimizerOptions {
  // SGD: an element's momentum decays at each of the tensor's steps, also where it has no gradient:
  // by momentum^D when D steps have passed since it had one.
  bool lazy = false;
  // With lazy, where the rate is constant and momentum is below 1 and not Nesterov's: and its value
  // takes the D - 1 steps it missed before its own, in closed form:
  // w -= lr m momentum (1 - momentum^(D-1)) / (1 - momentum).
  bool catch_up = false;
};

// The elements of a step are gathered in blocks, in which the dense optimizer's op takes its step:
// where all elements have a gradient, the bytes are the dense optimizer's, on the same device.
// SGD's dampening leaves an element's first gradient whole, as PyTorch's does a tensor's. One slot
// by one thread at a time; several slots by several threads.
class SparseOptimizer {
 public:
  // What a thread works with.
  class Worker {
   public:
    explicit Worker(const SparseOptimizer& optimizer);

   private:
    friend class SparseOptimizer;
    Executor executor_;
    Tensor hyper_;
    std::vector<float> values_, gradients_;
    std::vector<std::vector<float>> moments_;
    Selection first_, later_;
  };

  // In the moments of `optimizer`, which has them all and is in memory of the host: it counts the
  // steps, and its state() and restore() are of these, too. Keeps references. Throws Error: what
  // does not go together.
  SparseOptimizer(Optimizer& optimizer, const ParameterSpace& parameters, const Device& device,
                  const SparseOptimizerOptions& options = {});

  // The slot's part of a step: of `values`, its elements. `hyper` is of Optimizer::next();
  // gradients are multiplied by its scale first. Throws Error where catch_up meets another rate
  // than before.
  void apply(size_t slot, const Selection& gradient, const HyperParameters& hyper,
             std::span<float> values, Worker& worker);

  // What there is besides the optimizer's, by parameter: "layer1.weight.touched", the step at which
  // each element last had a gradient, 0 for none, and "layer1.weight.lr"; for lazy and dampening.
  std::map<std::string, Tensor> state() const;
  // Throws Error where it does not fit.
  void restore(const std::map<std::string, Tensor>& state);
  void forget();  // as of a training that begins

 private:
  struct Kept {  // of a slot
    std::vector<float*> moments;
    std::vector<int32_t> touched;  // empty: is not asked for
    float lr = 0;                  // of the last step; 0: there was none
  };
  // Elements that take the same step.
  void step(const Kept& kept, const Selection& gradient, std::span<const float> hyper, float scale,
            std::span<float> values, Worker& worker) const;
  void make_up(const Kept& kept, const Selection& gradient, const HyperParameters& hyper,
               std::span<float> values) const;

  OptimizerConfig config_;
  SparseOptimizerOptions options_;
  std::vector<ParameterSlot> slots_;
  std::vector<Kept> kept_;
  Plan plan_;  // of a block
};

}  // namespace ndtrain
