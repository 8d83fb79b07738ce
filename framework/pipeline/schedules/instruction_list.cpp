#include "framework/pipeline/schedules/instruction_list.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"

namespace ndtrain {

InstructionList::InstructionList(const PipeShape& shape, int rank) : shape_(shape), rank_(rank) {
  validate(shape);
  if (rank < 0 || rank >= shape.ranks()) {
    throw Error("pipeline: rank ", rank, " of ", shape.ranks());
  }
  for (const StageEdge& e : edges_of(shape)) {
    const int from = shape.rank_of(e.from), to = shape.rank_of(e.to);
    if (from != to && (from == rank || to == rank)) edges_.push_back(e);
  }
  std::ranges::sort(edges_, {}, [](const StageEdge& e) { return std::pair(e.from, e.to); });
}

void InstructionList::forward(int stage, int64_t micro_batch, int64_t version) {
  if (!shape_.trains(stage)) version = 0;
  for (const StageEdge& e : edges_) {
    if (e.to != stage || !e.activation) continue;
    list_.push_back({PipeOp::kReceiveActivation, stage, micro_batch, version, e.from});
  }
  list_.push_back({PipeOp::kForward, stage, micro_batch, version});
  for (const StageEdge& e : edges_) {
    if (e.from != stage || !e.activation) continue;
    list_.push_back({PipeOp::kSendActivation, stage, micro_batch, version, e.to});
  }
}

// What is computed again needs no gradient, so that it is done while that is waited for. The stage
// next in front is the first to wait for what it is sent.
void InstructionList::take_back(PipeOp op, int stage, int64_t micro_batch, int64_t version) {
  if (!shape_.trains(stage)) return;
  if (shape_.recomputes(stage)) list_.push_back({PipeOp::kRecompute, stage, micro_batch, version});
  for (const StageEdge& e : edges_) {
    if (e.from != stage || !returns_gradient(shape_, e)) continue;
    list_.push_back({PipeOp::kReceiveGradient, stage, micro_batch, version, e.to});
  }
  list_.push_back({op, stage, micro_batch, version});
  for (auto e = edges_.rbegin(); e != edges_.rend(); ++e) {
    if (e->to != stage || !returns_gradient(shape_, *e)) continue;
    list_.push_back({PipeOp::kSendGradient, stage, micro_batch, version, e->from});
  }
}

void InstructionList::backward(int stage, int64_t micro_batch, int64_t version) {
  take_back(PipeOp::kBackward, stage, micro_batch, version);
}

void InstructionList::backward_input(int stage, int64_t micro_batch, int64_t version) {
  take_back(PipeOp::kBackwardInput, stage, micro_batch, version);
}

void InstructionList::backward_weight(int stage, int64_t micro_batch, int64_t version) {
  if (!shape_.trains(stage)) return;
  list_.push_back({PipeOp::kBackwardWeight, stage, micro_batch, version});
}

void InstructionList::update(int stage, int64_t mini_batch) {
  if (!shape_.trains(stage)) return;
  const int64_t last = (mini_batch + 1) * shape_.micro_batches - 1;
  list_.push_back({PipeOp::kGradSync, stage, last, mini_batch});
  list_.push_back({PipeOp::kUpdate, stage, last, mini_batch});
}

std::vector<Instruction> InstructionList::flushed() {
  list_.push_back({PipeOp::kFlush, rank_, shape_.all_micro_batches() - 1});
  return std::move(list_);
}

}  // namespace ndtrain
