// A stage made ready to work on micro-batches of a number of rows, and what it has of each.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "framework/pipeline/run/stage_part.h"
#include "framework/pipeline/schedules/instruction.h"

namespace ndtrain {

// One thread.
class PreparedStage {
 public:
  // Keeps references; `step` is what the stage is cut from.
  PreparedStage(const StepGraph& step, Stage stage, const RankState& state);

  const Stage& stage() const { return stage_; }
  // Whether its forward pass needs something of the data set, or its backward pass does.
  bool reads(ValueId input) const;

  // What it has of a micro-batch: what came in, what its forward pass made of that, and the
  // gradients. Memory of those that are over is used again.
  StageValues& inputs(int64_t micro_batch) { return values_of(inputs_, micro_batch); }
  StageValues& activations(int64_t micro_batch) { return values_of(activations_, micro_batch); }
  StageValues& gradients(int64_t micro_batch) { return values_of(gradients_, micro_batch); }
  void forget_activations(int64_t micro_batch) { forget(activations_, micro_batch); }
  void forget(int64_t micro_batch);
  int64_t bytes() const;           // of all that memory
  int64_t constant_bytes() const;  // of its passes

  // kForward, kRecompute, kBackward, kBackwardInput or kBackwardWeight, whose plan is made the
  // first time.
  void run(PipeOp op, const MicroBatch& micro_batch);

 private:
  struct Values {
    std::map<int64_t, std::unique_ptr<StageValues>> of;  // by micro-batch
    std::vector<std::unique_ptr<StageValues>> free;
  };
  StageValues& values_of(Values& values, int64_t micro_batch);
  static void forget(Values& values, int64_t micro_batch);
  const StageGraph& graph_of(PipeOp op) const;

  const StepGraph& step_;
  const Stage stage_;
  const RankState& state_;
  std::map<PipeOp, StagePart> parts_;
  Values inputs_, activations_, gradients_;
};

}  // namespace ndtrain
