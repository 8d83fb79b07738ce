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
#include "framework/train/optimizer_config.h"
#include "framework/train/parameter_space.h"

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
// where all elements have a gradient, the bytes are the dense optimizer's, on the same device. Of
// Adam and AdamW the bias is corrected by the tensor's steps; SGD's dampening leaves out the first
// gradient of an element, as PyTorch's does that of a tensor. One slot by one thread at a time;
// several slots by several threads.
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

  // `slots` are the parameters; their ranges do not matter. `device` has the host's memory and must
  // outlive it. Throws Error: what does not go together.
  SparseOptimizer(const OptimizerConfig& config, const SparseOptimizerOptions& options,
                  std::span<const ParameterSlot> slots, const Device& device);

  // A step of the slot at this rate: of `values`, its elements. Gradients are multiplied by `scale`
  // first. Throws Error where catch_up meets another rate than before.
  void apply(size_t slot, const Selection& gradient, double lr, float scale,
             std::span<float> values, Worker& worker);
  int64_t steps(size_t slot) const { return kept_[slot].steps; }

  // By parameter: "layer1.weight.m" as the dense optimizer has them; "layer1.weight.steps" and,
  // where it is kept, "layer1.weight.touched": the step at which an element last had a gradient.
  std::map<std::string, Tensor> state() const;
  // Throws Error where it does not fit.
  void restore(const std::map<std::string, Tensor>& state);

 private:
  struct Kept {  // of a slot
    std::vector<std::vector<float>> moments;
    std::vector<int32_t> touched;  // empty: is not asked for
    int64_t steps = 0;
    double lr = 0;
  };
  // Elements that take the same step.
  void step(Kept& kept, const Selection& gradient, const HyperParameters& hyper, float scale,
            std::span<float> values, Worker& worker) const;
  void make_up(Kept& kept, const Selection& gradient, double lr, std::span<float> values) const;

  OptimizerConfig config_;
  SparseOptimizerOptions options_;
  std::vector<ParameterSlot> slots_;
  std::vector<std::string> moment_names_;
  std::vector<Kept> kept_;
  Plan plan_;  // of a block
};

}  // namespace ndtrain
