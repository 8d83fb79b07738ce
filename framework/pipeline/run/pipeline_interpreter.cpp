#include "framework/pipeline/run/pipeline_interpreter.h"

#include <algorithm>
#include <set>
#include <utility>

#include "framework/pipeline/run/pipeline_cut.h"
#include "framework/train/trainer_config.h"

namespace ndtrain {
namespace {

bool is_backward(PipeOp op) {
  return op == PipeOp::kBackward || op == PipeOp::kBackwardInput || op == PipeOp::kBackwardWeight;
}

}  // namespace

PipelineInterpreter::PipelineInterpreter(Settings settings, Communicator& communicator,
                                         const RankState& state)
    : settings_(std::move(settings)),
      place_(settings_.ranks.place_of(communicator.rank())),
      replica_(settings_.ranks.replica_of(communicator.rank())),
      state_(state),
      messages_(communicator, state.device, settings_.ranks) {}

std::vector<int> PipelineInterpreter::own_stages() const {
  std::vector<int> own;
  for (int s = place_; s < settings_.shape.stages; s += settings_.shape.ranks()) own.push_back(s);
  return own;
}

int64_t PipelineInterpreter::value_bytes() const {
  int64_t bytes = 0;
  for (const auto& [_, stages] : ready_) bytes += stages->bytes();
  return bytes;
}

int64_t PipelineInterpreter::work_bytes() const {
  auto bytes = static_cast<int64_t>(state_.work->bytes());
  for (const auto& [_, stages] : ready_) bytes += stages->constant_bytes();
  return bytes;
}

const PipelineInterpreter::Listed& PipelineInterpreter::list_of(int parts, int64_t mini_batches) {
  Listed& l = lists_[{parts, mini_batches}];
  if (!l.list.empty()) return l;
  l.shape = settings_.shape;
  l.shape.micro_batches = parts;
  l.shape.mini_batches = mini_batches;
  l.list = settings_.schedule.instructions(l.shape, place_);
  for (std::vector<bool>* v : {&l.ends, &l.sent, &l.forwarded, &l.backward, &l.done}) {
    v->resize(l.list.size());
  }
  std::set<std::pair<int, int64_t>> later, later_sent;  // stages and micro-batches
  std::set<int64_t> later_forward, later_any;           // mini-batches
  for (size_t k = l.list.size(); k-- > 0;) {
    const Instruction& i = l.list[k];
    if (i.op == PipeOp::kFlush) continue;
    const int64_t mini_batch = i.micro_batch / parts;
    l.done[k] = later_any.insert(mini_batch).second;
    if (i.op == PipeOp::kUpdate || i.op == PipeOp::kGradSync) continue;
    l.ends[k] = later.insert({i.stage, i.micro_batch}).second;
    const bool forward = i.op == PipeOp::kForward || i.op == PipeOp::kSendActivation;
    l.sent[k] = forward && l.shape.trains(i.stage) && l.shape.recomputes(i.stage) &&
                later_sent.insert({i.stage, i.micro_batch}).second;
    l.forwarded[k] = i.op == PipeOp::kForward && later_forward.insert(mini_batch).second;
  }
  std::set<int64_t> begun;  // mini-batches
  for (size_t k = 0; k < l.list.size(); ++k) {
    const Instruction& i = l.list[k];
    const bool last = i.micro_batch % parts == parts - 1;
    l.backward[k] = last && is_backward(i.op) && begun.insert(i.micro_batch / parts).second;
  }
  return l;
}

PreparedStages& PipelineInterpreter::prepared(std::span<const int64_t> rows) {
  const int64_t batch = settings_.padded_to > 0 ? settings_.padded_to : std::ssize(rows);
  std::unique_ptr<PreparedStages>& stages = ready_[batch];
  if (!stages) {
    stages = std::make_unique<PreparedStages>(settings_.step(batch), settings_.stage_of,
                                              own_stages(), state_);
  }
  return *stages;
}

std::span<const int64_t> PipelineInterpreter::all_rows_of(const Instruction& i,
                                                          const Run& run) const {
  const MiniBatch& of = run.mini_batches[static_cast<size_t>(i.micro_batch / run.parts)];
  return rows_of_part(of.rows, static_cast<int>(i.micro_batch % run.parts), run.parts);
}

// Those of this replica.
PreparedStages::Rows PipelineInterpreter::rows_of(const Instruction& i, const Run& run) const {
  const MiniBatch& of = run.mini_batches[static_cast<size_t>(i.micro_batch / run.parts)];
  const std::span<const int64_t> all = all_rows_of(i, run);
  const RowInterval own =
      ndtrain::rows_of(std::ssize(all), replica_, settings_.ranks.replicas(place_));
  return {.data = run.data,
          .rows = all.subspan(static_cast<size_t>(own.begin), static_cast<size_t>(own.size())),
          .of = std::ssize(of.rows),
          .seed = run.seed,
          .step = of.step};
}

MicroBatch PipelineInterpreter::micro_batch_of(const Instruction& i, const Run& run) const {
  return {.number = i.micro_batch,
          .part = {.shard = replica_,
                   .number = static_cast<int>(i.micro_batch % run.parts),
                   .parts = run.parts},
          .parameters = run.versions ? run.versions->values(i.version) : state_.parameters.values(),
          .sync = run.sync};
}

void PipelineInterpreter::run(const Run& run) {
  const Listed& of = list_of(run.parts, std::ssize(run.mini_batches));
  for (size_t k = 0; k < of.list.size(); ++k) {
    const Instruction& i = of.list[k];
    if (of.backward[k] && run.backward_begins) run.backward_begins(i.micro_batch / run.parts);
    carry_out(i, of, run);
    if (of.forwarded[k]) {
      run.forward_done(has_last_stage() ? &report_ : nullptr);
    }
    if (of.sent[k]) {
      prepared(rows_of(i, run).rows).stage(i.stage).forget_activations(i.micro_batch);
    }
    if (of.ends[k]) forget(i, run);
    if (of.done[k]) run.done(i.micro_batch / run.parts);
  }
}

void PipelineInterpreter::forget(const Instruction& i, const Run& run) {
  prepared(rows_of(i, run).rows).stage(i.stage).forget(i.micro_batch);
  if (run.versions) run.versions->give_back(i.version);
}

StageMessages::Lane PipelineInterpreter::lane(const Instruction& i, const PipeShape& shape) const {
  const int from = is_send(i.op) ? i.stage : i.peer, to = is_send(i.op) ? i.peer : i.stage;
  return {from, to, settings_.schedule.most_in_flight(shape, std::min(from, to))};
}

void PipelineInterpreter::carry_out(const Instruction& i, const Listed& of, const Run& run) {
  if (i.op == PipeOp::kFlush) return messages_.finish();
  if (i.op == PipeOp::kUpdate) return run.update(i.stage, i.micro_batch / run.parts);
  if (i.op == PipeOp::kGradSync) return;  // begins as gradients are ready, and is part of an update
  PreparedStages& stages = prepared(rows_of(i, run).rows);
  PreparedStage& stage = stages.stage(i.stage);
  const Stage& ports = stage.stage();
  const int64_t m = i.micro_batch, all = std::ssize(all_rows_of(i, run));
  switch (i.op) {
    case PipeOp::kReceiveActivation:
      return messages_.receive(of.shape, lane(i, of.shape), all,
                               values_with(ports.activations_in, i.peer), stage.inputs(m));
    case PipeOp::kSendActivation:
      return messages_.send(of.shape, lane(i, of.shape), all,
                            values_with(ports.activations_out, i.peer), stage.activations(m));
    case PipeOp::kReceiveGradient:
      return messages_.receive(of.shape, lane(i, of.shape), all,
                               values_with(ports.gradients_in, i.peer), stage.gradients(m));
    case PipeOp::kSendGradient:
      return messages_.send(of.shape, lane(i, of.shape), all,
                            values_with(ports.gradients_out, i.peer), stage.gradients(m));
    case PipeOp::kForward:
      return forward(i, run);
    case PipeOp::kRecompute:
      return stage.run(i.op, micro_batch_of(i, run));
    case PipeOp::kBackward:
    case PipeOp::kBackwardInput:
    case PipeOp::kBackwardWeight:
      stage.run(i.op, micro_batch_of(i, run));
      if (i.op == PipeOp::kBackwardWeight) return;
      return hand_over(ports.gradients_out, stages, m, stage.gradients(m),
                       &PreparedStage::gradients);
    default:
      throw Error("pipeline: ", describe(i), " is none of a micro-batch");
  }
}

void PipelineInterpreter::forward(const Instruction& i, const Run& run) {
  const PreparedStages::Rows rows = rows_of(i, run);
  const MicroBatch micro_batch = micro_batch_of(i, run);
  PreparedStages& stages = prepared(rows.rows);
  PreparedStage& stage = stages.stage(i.stage);
  if (run.versions) run.versions->hold(i.version);
  stages.give(i.stage, micro_batch, rows);
  stage.run(PipeOp::kForward, micro_batch);
  hand_over(stage.stage().activations_out, stages, i.micro_batch, stage.activations(i.micro_batch),
            &PreparedStage::inputs);
  if (i.stage + 1 != settings_.shape.stages) return;
  if (micro_batch.part.number == 0) report_ = {};
  stages.report(micro_batch, rows, report_);
}

void PipelineInterpreter::hand_over(const std::vector<StagePort>& ports, PreparedStages& stages,
                                    int64_t micro_batch, StageValues& from,
                                    StageValues& (PreparedStage::*to)(int64_t)) {
  for (const StagePort& port : ports) {
    if (settings_.shape.rank_of(port.peer) != place_) continue;
    StageValues& there = (stages.stage(port.peer).*to)(micro_batch);
    copy_on(state_.device, there.write(port.value), from.read(port.value),
            from.type(port.value).bytes());
  }
}

}  // namespace ndtrain
