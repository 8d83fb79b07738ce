#include "framework/pipeline/run/prepared_stages.h"

#include <algorithm>
#include <utility>

#include "framework/train/step_rows.h"

namespace ndtrain {

PreparedStages::PreparedStages(StepGraph step, std::span<const int> stage_of,
                               std::span<const int> own, const RankState& state)
    : step_(std::move(step)), state_(state) {
  std::vector<Stage> all = make_stages(step_, stage_of);
  for (const int s : own) {
    stages_[s] =
        std::make_unique<PreparedStage>(step_, std::move(all[static_cast<size_t>(s)]), state);
  }
  const Graph& g = step_.graph;
  const auto room_for = [&](ValueId v) { return host_tensor(state.device, g.type(v)); };
  for (ValueId v : step_.features) features_.push_back(room_for(v));
  labels_ = room_for(step_.labels);
  weights_ = room_for(step_.weights);
  loss_ = room_for(g.outputs()[0]);
  logits_ = room_for(g.outputs()[1]);
  if (step_.dropout_seed != kNone) seed_ = room_for(step_.dropout_seed);
}

int64_t PreparedStages::bytes() const {
  int64_t bytes = 0;
  for (const auto& [_, stage] : stages_) bytes += stage->bytes();
  return bytes;
}

int64_t PreparedStages::constant_bytes() const {
  int64_t bytes = 0;
  for (const auto& [_, stage] : stages_) bytes += stage->constant_bytes();
  return bytes;
}

void PreparedStages::upload(PreparedStage& to, int64_t micro_batch, ValueId v,
                            const Tensor& value) const {
  if (!to.reads(v)) return;
  state_.device.upload(to.inputs(micro_batch).write(v), value.data(), value.bytes());
}

void PreparedStages::give(int stage, const MicroBatch& micro_batch, const Rows& rows) {
  PreparedStage& to = *stages_.at(stage);
  const ShardPart& part = micro_batch.part;
  if (step_.dropout_seed != kNone) {
    auto seed = seed_.mutable_as<int64_t>();
    seed[0] = static_cast<int64_t>(seed_of_part(rows.seed, part.shard, part.number));
    seed[1] = rows.step - 1;
    upload(to, micro_batch.number, step_.dropout_seed, seed_);
  }
  const auto reads = [&](ValueId v) { return to.reads(v); };
  if (std::ranges::none_of(step_.features, reads) && !reads(step_.labels) &&
      !reads(step_.weights)) {
    return;
  }
  fetch_rows(rows.data, rows.rows, rows.of, logits_.shape()[1], {features_, labels_, weights_});
  for (size_t k = 0; k < features_.size(); ++k) {
    upload(to, micro_batch.number, step_.features[k], features_[k]);
  }
  upload(to, micro_batch.number, step_.labels, labels_);
  upload(to, micro_batch.number, step_.weights, weights_);
}

void PreparedStages::report(const MicroBatch& micro_batch, const Rows& rows, ShardReport& to) {
  PreparedStage& last = *stages_.rbegin()->second;
  const StageValues& made = last.activations(micro_batch.number);
  const ValueId loss = step_.graph.outputs()[0], logits = step_.graph.outputs()[1];
  const StageValues& with_logits = made.has(logits) ? made : last.inputs(micro_batch.number);
  state_.device.download(loss_.mutable_data(), made.read(loss), loss_.bytes());
  state_.device.download(logits_.mutable_data(), with_logits.read(logits), logits_.bytes());
  add_rows(to, loss_.as<float>()[0], logits_, {features_, labels_, weights_},
           std::ssize(rows.rows));
}

}  // namespace ndtrain
