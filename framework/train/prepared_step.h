// A step graph made ready to run on a number of rows, with what goes into it and what comes out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "framework/runtime/device_tensor.h"
#include "framework/runtime/executor.h"
#include "framework/train/dataset.h"
#include "framework/train/gradient_sync.h"
#include "framework/train/running_statistics.h"
#include "framework/train/step_graph.h"

namespace ndtrain {

// The rows of a shard in a step are computed in parts, one after the other.
struct ShardPart {
  int shard = 0, number = 0, parts = 1;
  bool is_last() const { return number + 1 == parts; }
};

// One thread.
class PreparedStep {
 public:
  // Keeps a reference to the parameters; the device must outlive it.
  // `fuse` as PlanOptions has it.
  PreparedStep(StepGraph graph, const Device& device, const ParameterSpace& parameters,
               bool fuse = true);

  // Rows, at most those it was made for, and labels; each row weighs 1 / `of`. Throws Error for a
  // label that is no class.
  void fetch(Dataset& data, std::span<const int64_t> rows, int64_t of);

  struct Run {
    ShardPart part;
    uint64_t seed = 0;  // of the training
    int64_t step = 0;   // of the training, from 1
    double loss_scale = 1;
    float* gradients = nullptr;               // where they go, laid out as the parameters
    RunningStatistics* statistics = nullptr;  // null: the model has none
  };
  // Loss, logits, gradients and new running statistics of what was fetched.
  void run(const Run& run, const Hooks& hooks);
  // Of what was run, `rows` rows: adds to the report of its shard, which the first part begins.
  void report(const ShardPart& part, int64_t rows, ShardReport& to);

  // The slot of the parameters that binding k is; whose gradient output k is.
  std::optional<size_t> slot_of_binding(int k) const;
  std::optional<size_t> slot_of_output(int k) const;

  const Plan& plan() const { return plan_; }
  void set_profiling(bool on) { executor_.set_profiling(on); }
  std::vector<Executor::NodeTime> profile() const { return executor_.profile(); }

 private:
  std::vector<Tensor> features();  // where they go
  int64_t begin_of(ValueId trainable) const;
  std::vector<const void*> bindings(const Run& run);

  StepGraph graph_;
  const ParameterSpace& parameters_;
  Plan plan_;
  Executor executor_;
  std::map<ValueId, size_t> slots_;  // of the trainable parameters
  std::vector<StagedTensor> inputs_;
  StagedTensor labels_, weights_, seed_, loss_scale_, loss_, logits_, finite_;
};

}  // namespace ndtrain
