#include "framework/pipeline/run/prepared_stage.h"

#include <algorithm>
#include <utility>

namespace ndtrain {

PreparedStage::PreparedStage(const StepGraph& step, Stage stage, const RankState& state)
    : step_(step), stage_(std::move(stage)), state_(state) {}

bool PreparedStage::reads(ValueId input) const {
  return std::ranges::count(stage_.forward.inputs, input) > 0 ||
         std::ranges::count(stage_.saved, input) > 0;
}

StageValues& PreparedStage::values_of(Values& values, int64_t micro_batch) {
  std::unique_ptr<StageValues>& of = values.of[micro_batch];
  if (!of && !values.free.empty()) {
    of = std::move(values.free.back());
    values.free.pop_back();
  }
  if (!of) of = std::make_unique<StageValues>(step_.graph, state_.device);
  return *of;
}

void PreparedStage::forget(int64_t micro_batch) {
  for (Values* values : {&activations_, &gradients_}) {
    auto over = values->of.extract(micro_batch);
    if (over.empty()) continue;
    over.mapped()->forget();
    values->free.push_back(std::move(over.mapped()));
  }
}

const StageGraph& PreparedStage::graph_of(PipeOp op) const {
  switch (op) {
    case PipeOp::kForward:
      return stage_.forward;
    case PipeOp::kBackward:
      return stage_.backward;
    case PipeOp::kBackwardInput:
      return stage_.backward_input;
    case PipeOp::kBackwardWeight:
      return stage_.backward_weight;
    default:
      throw Error("pipeline: ", symbol(op), " is not computed by a stage");
  }
}

void PreparedStage::run(PipeOp op, const MicroBatch& micro_batch) {
  const StageGraph& graph = graph_of(op);
  if (graph.outputs.empty()) return;  // all of its backward pass is in the other part
  StagePart& part = parts_.try_emplace(op, step_, stage_, graph, state_).first->second;
  StageValues& forward = activations(micro_batch.number);
  if (op == PipeOp::kForward) {
    const StageValues* const there[] = {&forward};
    part.run(micro_batch, there, forward);
    return;
  }
  StageValues& backward = gradients(micro_batch.number);
  const StageValues* const there[] = {&forward, &backward};
  part.run(micro_batch, there, backward);
}

}  // namespace ndtrain
