#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/runtime/executor.h"
#include "framework/train/parameter_space.h"

namespace ndtrain {

struct OptimizerConfig {
  enum class Kind { kSgd, kAdam, kAdamW, kRmsProp };
  Kind kind = Kind::kAdam;
  double momentum = 0.9;              // SGD, RMSprop
  double dampening = 0;               // SGD: the share of a gradient that its momentum leaves out
  bool nesterov = false;              // SGD
  double beta1 = 0.9, beta2 = 0.999;  // Adam, AdamW
  bool amsgrad = false;               // Adam, AdamW: divided by the largest second moment so far
  double alpha = 0.99;                // RMSprop
  bool centered = false;              // RMSprop: divided by the deviation from the mean gradient
  double epsilon = 1e-8;              // all but SGD
  double weight_decay = 0;

  void check() const;  // throws Error: what does not go together, and what is out of range
};

// sgd, adam, adamw, rmsprop; throws Error.
OptimizerConfig::Kind optimizer_named(std::string_view name);

// Hyper-parameters of one step, as the op takes them (framework/ops/optimizer.cpp). Taken when the
// step begins, so that an update that is applied later is still that step's.
struct HyperParameters {
  int64_t step = 0;  // from 1
  std::vector<float> values;
};

// PyTorch's SGD, Adam, AdamW and RMSprop on any ranges of the parameters. Not thread-safe.
class Optimizer {
 public:
  // Keeps references: `parameters` and `device` must outlive it. Throws Error as check() does.
  Optimizer(const OptimizerConfig& config, const ParameterSpace& parameters, const Device& device);

  // Begins a step: counts it.
  HyperParameters next(double lr);
  // The step that was begun last is not applied anywhere: the next one has its number.
  void leave_out();
  int64_t steps() const { return steps_; }
  void reset();  // to no steps, and moments of zero

  // The step's update of the elements of `range`, and of their moments; done on return. Device
  // addresses of the first of them: `to` may be `from`, or lie in another version of the values.
  // An element's bits do not depend on the range it is in. The ranges of a step come in any order,
  // each element once. A range keeps a plan of its own: they should be the same at every step.
  void apply(ParameterRange range, const HyperParameters& hyper, const float* gradients,
             const float* from, float* to);

  void set_profiling(bool on);
  std::vector<Executor::NodeTime> profile() const;  // of the step that was applied last

  // Moments by parameter, "layer1.weight.m", in whatever ranges they were made; for checkpoints.
  std::map<std::string, Tensor> state() const;
  void restore(const std::map<std::string, Tensor>& state, int64_t steps);  // throws Error

 private:
  struct RangeStep {
    explicit RangeStep(const Graph& g, const Device& d) : plan(g, d), executor(plan) {}
    Plan plan;
    Executor executor;
  };
  RangeStep& step_of(ParameterRange range);
  float* moment(size_t i, int64_t at = 0) const;

  OptimizerConfig config_;
  const ParameterSpace& parameters_;
  const Device& device_;
  const std::vector<std::string> moment_names_;
  std::vector<DeviceTensor> moments_;  // of these names; each lies as the values do
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<RangeStep>> range_steps_;
  StagedTensor hyper_;
  int64_t steps_ = 0;
  int64_t applied_ = 0;  // the step that was applied last, to these ranges
  std::vector<const RangeStep*> applied_to_;
  bool profiling_ = false;
};

}  // namespace ndtrain
