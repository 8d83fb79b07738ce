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

void PreparedStage::forget(Values& values, int64_t micro_batch) {
  auto over = values.of.extract(micro_batch);
  if (over.empty()) return;
  over.mapped()->forget();
  values.free.push_back(std::move(over.mapped()));
}

void PreparedStage::forget(int64_t micro_batch) {
  for (Values* values : {&inputs_, &activations_, &gradients_}) forget(*values, micro_batch);
}

int64_t PreparedStage::bytes() const {
  int64_t bytes = 0;
  for (const Values* values : {&inputs_, &activations_, &gradients_}) {
    for (const auto& [_, of] : values->of) bytes += of->bytes();
    for (const auto& of : values->free) bytes += of->bytes();
  }
  return bytes;
}

int64_t PreparedStage::constant_bytes() const {
  int64_t bytes = 0;
  for (const auto& [_, part] : parts_) bytes += part.constant_bytes();
  return bytes;
}

const StageGraph& PreparedStage::graph_of(PipeOp op) const {
  switch (op) {
    case PipeOp::kForward:
    case PipeOp::kRecompute:
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
  const PipeOp of = op == PipeOp::kRecompute ? PipeOp::kForward : op;
  StagePart& part = parts_.try_emplace(of, step_, stage_, graph, state_).first->second;
  const int64_t m = micro_batch.number;
  if (of == PipeOp::kForward) {
    const StageValues* const there[] = {&inputs(m)};
    part.run(micro_batch, there, activations(m), op == PipeOp::kRecompute);
    return;
  }
  const StageValues* const there[] = {&inputs(m), &activations(m), &gradients(m)};
  part.run(micro_batch, there, gradients(m));
}

}  // namespace ndtrain
