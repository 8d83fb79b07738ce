#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/runtime/executor.h"
#include "framework/train/parameters.h"

namespace ndtrain {

struct OptimizerConfig {
  enum class Kind { kSgd, kAdam, kAdamW };
  Kind kind = Kind::kAdam;
  double momentum = 0.9;  // SGD
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // Adam, AdamW
  double weight_decay = 0;
};

OptimizerConfig::Kind optimizer_named(std::string_view name);  // sgd, adam, adamw; throws Error

// PyTorch's SGD, Adam and AdamW, as an op run per bucket (framework/ops/optimizer.cpp). The hyper-
// parameters of a step are a snapshot: the same for all its buckets.
class Optimizer {
 public:
  // Keeps references: `parameters` and `device` must outlive it.
  Optimizer(const OptimizerConfig& config, Parameters& parameters, const Device& device);

  // Applies the gradients of all buckets. Steps count from 1.
  void step(double lr);
  int64_t steps() const { return steps_; }

  void set_profiling(bool on);
  std::vector<Executor::NodeTime> profile() const;  // of the last step

  // Moments by "bucketN.m" and "bucketN.v", for checkpoints.
  std::map<std::string, Tensor> state() const;
  void restore(const std::map<std::string, Tensor>& state, int64_t steps);

 private:
  struct BucketStep {
    explicit BucketStep(const Graph& g, const Device& d) : plan(g, d), executor(plan) {}
    Plan plan;
    Executor executor;
    std::vector<DeviceTensor> moments;
  };
  void fill_hyper_parameters(double lr);
  std::string moment_name(size_t bucket, size_t moment) const;

  OptimizerConfig config_;
  Parameters& parameters_;
  std::vector<std::unique_ptr<BucketStep>> buckets_;
  StagedTensor hyper_;  // f32 [3] or [7], as the op takes it
  int64_t steps_ = 0;
};

}  // namespace ndtrain
