#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/runtime/executor.h"
#include "framework/train/optimizer_config.h"
#include "framework/train/parameter_space.h"

namespace ndtrain {

// PyTorch's SGD, Adam, AdamW and RMSprop on any ranges of the parameters. Not thread-safe.
class Optimizer {
 public:
  // Keeps references: `parameters` and `device` must outlive it. Throws Error as check() does.
  Optimizer(const OptimizerConfig& config, const ParameterSpace& parameters, const Device& device);

  const OptimizerConfig& config() const { return config_; }
  // From now on moments are kept, and updates applied, of these ranges alone, which rise and do not
  // overlap (Rajbhandari et al., "ZeRO", SC'20): those there are go. `complete` is given moments
  // that lie as the parameters do in memory of the host, and fills in what others keep.
  using Complete = std::function<void(std::span<float> moment)>;
  void keep_only(std::span<const ParameterRange> ranges, Complete complete);

  // What the learning rate of a parameter is multiplied by, by its name; 1 for others.
  void scale_rates(const std::map<std::string, double>& rates);

  // Begins a step: counts it.
  HyperParameters next(double lr);
  // The step that was begun last is not applied anywhere: the next one has its number.
  void leave_out();
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }  // so many are applied; moments stay
  void reset();                                      // to no steps, and moments of zero

  // The step's update of the elements of `range`, and of their moments; done on return. `gradients`
  // are multiplied by the step's scale where they lie. Device
  // addresses of the first of them: `to` may be `from`, or lie in another version of the values.
  // An element's bits do not depend on the range it is in. The ranges of a step come in any order,
  // each element once. A range keeps a plan of its own: they should be the same at every step.
  void apply(ParameterRange range, const HyperParameters& hyper, float* gradients,
             const float* from, float* to);

  // Device addresses of the moments of the range's first element, which is kept here with those
  // behind it.
  std::vector<float*> moments(ParameterRange range);

  void set_profiling(bool on);
  std::vector<Executor::NodeTime> profile() const;  // of the step that was applied last

  // Moments by parameter, "layer1.weight.m", in whatever ranges they were made; for checkpoints.
  // All of them, also where not all are kept here.
  std::map<std::string, Tensor> state() const;
  // Of the weights, by parameter; none before the first step, or where none is kept
  // (OptimizerConfig::ema). All of them, as state() has them.
  std::map<std::string, Tensor> averages() const;
  // Of no steps there need be none. Throws Error where the state does not fit.
  void restore(const std::map<std::string, Tensor>& state, int64_t steps);

 private:
  struct RangeStep {
    explicit RangeStep(const Graph& g, const Device& d) : plan(g, d), executor(plan) {}
    Plan plan;
    Executor executor;
  };
  struct Kept {
    ParameterRange range;
    int64_t at;  // where its moments begin
  };
  struct Rate {  // of a range, each where the one before it ends
    ParameterRange range;
    double factor;  // of the learning rate
  };
  // At one rate.
  void apply_at(double factor, ParameterRange range, const HyperParameters& hyper, float* gradients,
                const float* from, float* to);
  RangeStep& step_of(ParameterRange range);
  void scale(int64_t n, float* gradients, float by);
  void make_moments();
  int64_t place_of(ParameterRange range) const;  // among the moments
  float* moment(size_t i, int64_t at) const;
  void add_moments(size_t i, std::map<std::string, Tensor>& to, const std::string& suffix) const;

  OptimizerConfig config_;
  const ParameterSpace& parameters_;
  const Device& device_;
  const std::vector<std::string> moment_names_;
  std::vector<Kept> kept_;
  std::vector<Rate> rates_;
  Complete complete_;                  // none: all is kept
  std::vector<DeviceTensor> moments_;  // of these names, from when they are needed: what is kept
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<RangeStep>> range_steps_;
  std::map<int64_t, std::unique_ptr<RangeStep>> scalings_;  // by size
  StagedTensor hyper_, scale_;
  int64_t steps_ = 0;
  int64_t applied_ = 0;  // the step that was applied last, to these ranges
  std::vector<const RangeStep*> applied_to_;
  bool profiling_ = false;
};

}  // namespace ndtrain
