#include "framework/pipeline/run/pipeline_step.h"

#include <algorithm>
#include <set>
#include <utility>

#include "framework/pipeline/run/pipeline_cut.h"
#include "framework/train/trainer_config.h"

namespace ndtrain {

PipelineStep::PipelineStep(Settings settings, Communicator& communicator, const RankState& state)
    : settings_(std::move(settings)),
      rank_(communicator.rank()),
      state_(state),
      messages_(communicator, state.device) {}

std::vector<int> PipelineStep::own_stages() const {
  std::vector<int> own;
  for (int s = rank_; s < settings_.shape.stages; s += settings_.shape.ranks()) own.push_back(s);
  return own;
}

const PipelineStep::Listed& PipelineStep::list_of(int parts) {
  Listed& l = lists_[parts];
  if (!l.list.empty()) return l;
  l.shape = settings_.shape;
  l.shape.micro_batches = parts;
  l.list = settings_.schedule.instructions(l.shape, rank_);
  l.ends.resize(l.list.size());
  std::set<std::pair<int, int64_t>> later;
  for (size_t k = l.list.size(); k-- > 0;) {
    const Instruction& i = l.list[k];
    if (i.op == PipeOp::kUpdate || i.op == PipeOp::kGradSync || i.op == PipeOp::kFlush) continue;
    l.ends[k] = later.insert({i.stage, i.micro_batch}).second;
  }
  return l;
}

PreparedStages& PipelineStep::prepared(std::span<const int64_t> rows) {
  const int64_t batch = settings_.padded_to > 0 ? settings_.padded_to : std::ssize(rows);
  std::unique_ptr<PreparedStages>& stages = ready_[batch];
  if (!stages) {
    stages = std::make_unique<PreparedStages>(settings_.step(batch), settings_.stage_of,
                                              own_stages(), state_);
  }
  return *stages;
}

void PipelineStep::run(const Run& run) {
  const Listed& of = list_of(run.parts);
  report_ = {};
  for (size_t k = 0; k < of.list.size(); ++k) {
    const Instruction& i = of.list[k];
    carry_out(i, of, run);
    if (!of.ends[k]) continue;
    prepared(rows_of_part(run.rows.rows, static_cast<int>(i.micro_batch), run.parts))
        .stage(i.stage)
        .forget(i.micro_batch);
  }
}

StageMessages::Lane PipelineStep::lane(const Instruction& i, const PipeShape& shape) const {
  const int from = is_send(i.op) ? i.stage : i.peer, to = is_send(i.op) ? i.peer : i.stage;
  return {from, to, settings_.schedule.most_in_flight(shape, std::min(from, to))};
}

void PipelineStep::carry_out(const Instruction& i, const Listed& of, const Run& run) {
  if (i.op == PipeOp::kFlush) return messages_.finish();
  if (i.op == PipeOp::kUpdate) return run.update(i.stage);
  if (i.op == PipeOp::kGradSync) return;  // a stage is on one rank
  PreparedStages::Rows rows = run.rows;
  rows.rows = rows_of_part(run.rows.rows, static_cast<int>(i.micro_batch), run.parts);
  PreparedStages& stages = prepared(rows.rows);
  PreparedStage& stage = stages.stage(i.stage);
  const Stage& ports = stage.stage();
  const int64_t m = i.micro_batch;
  switch (i.op) {
    case PipeOp::kReceiveActivation:
      return messages_.receive(of.shape, lane(i, of.shape),
                               values_with(ports.activations_in, i.peer), stage.activations(m));
    case PipeOp::kSendActivation:
      return messages_.send(of.shape, lane(i, of.shape), values_with(ports.activations_out, i.peer),
                            stage.activations(m));
    case PipeOp::kReceiveGradient:
      return messages_.receive(of.shape, lane(i, of.shape), values_with(ports.gradients_in, i.peer),
                               stage.gradients(m));
    case PipeOp::kSendGradient:
      return messages_.send(of.shape, lane(i, of.shape), values_with(ports.gradients_out, i.peer),
                            stage.gradients(m));
    case PipeOp::kForward:
      return forward(i, rows, stages, run);
    case PipeOp::kBackward:
    case PipeOp::kBackwardInput:
    case PipeOp::kBackwardWeight:
      stage.run(i.op, {.number = static_cast<int>(m), .parts = run.parts});
      if (i.op == PipeOp::kBackwardWeight) return;
      return hand_over(ports.gradients_out, stages, m, stage.gradients(m),
                       &PreparedStage::gradients);
    default:
      throw Error("pipeline: ", describe(i), " is not carried out");
  }
}

void PipelineStep::forward(const Instruction& i, const PreparedStages::Rows& rows,
                           PreparedStages& stages, const Run& run) {
  const ShardPart part{.number = static_cast<int>(i.micro_batch), .parts = run.parts};
  PreparedStage& stage = stages.stage(i.stage);
  stages.give(i.stage, part, rows);
  stage.run(PipeOp::kForward, part);
  hand_over(stage.stage().activations_out, stages, i.micro_batch, stage.activations(i.micro_batch),
            &PreparedStage::activations);
  if (i.stage + 1 != settings_.shape.stages) return;
  stages.report(part, rows, report_);
  if (part.is_last()) run.forward_done(report_);
}

void PipelineStep::hand_over(const std::vector<StagePort>& ports, PreparedStages& stages,
                             int64_t micro_batch, StageValues& from,
                             StageValues& (PreparedStage::*to)(int64_t)) {
  for (const StagePort& port : ports) {
    if (settings_.shape.rank_of(port.peer) != rank_) continue;
    StageValues& there = (stages.stage(port.peer).*to)(micro_batch);
    copy_on(state_.device, there.write(port.value), from.read(port.value),
            from.type(port.value).bytes());
  }
}

}  // namespace ndtrain
