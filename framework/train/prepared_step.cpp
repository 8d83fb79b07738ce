#include "framework/train/prepared_step.h"

#include <utility>

#include "framework/train/shards.h"
#include "framework/train/step_rows.h"

namespace ndtrain {

PreparedStep::PreparedStep(StepGraph graph, const Device& device, const ParameterSpace& parameters,
                           bool fuse)
    : graph_(std::move(graph)),
      parameters_(parameters),
      plan_(graph_.graph, device, {.bound_params = bound_params(graph_), .fuse = fuse}),
      executor_(plan_) {
  const Graph& g = graph_.graph;
  for (ValueId v : graph_.trainable) slots_[v] = parameters.slot(g.value(v).name);
  for (ValueId v : graph_.features) inputs_.emplace_back(device, g.type(v));
  labels_ = StagedTensor(device, g.type(graph_.labels));
  weights_ = StagedTensor(device, g.type(graph_.weights));
  loss_ = StagedTensor(device, g.type(g.outputs()[0]));
  logits_ = StagedTensor(device, g.type(g.outputs()[1]));
  seed_ = StagedTensor(device, {DType::kI64, {2}});
  loss_scale_ = StagedTensor(device, {DType::kF32, {}});
  finite_ = StagedTensor(device, {DType::kF32, {}});
}

void PreparedStep::fetch(Dataset& data, std::span<const int64_t> rows, int64_t of) {
  std::vector<Tensor> inputs = features();
  fetch_rows(data, rows, of, logits_.host().shape()[1], {inputs, labels_.host(), weights_.host()});
}

std::vector<Tensor> PreparedStep::features() {
  std::vector<Tensor> features;
  for (StagedTensor& t : inputs_) features.push_back(t.host());
  return features;
}

int64_t PreparedStep::begin_of(ValueId trainable) const {
  return parameters_.slots()[slots_.at(trainable)].range.begin;
}

std::vector<const void*> PreparedStep::bindings(const Run& run) {
  std::map<ValueId, const void*> given;
  for (size_t k = 0; k < inputs_.size(); ++k) given[graph_.features[k]] = inputs_[k].data();
  given[graph_.labels] = labels_.data();
  given[graph_.weights] = weights_.data();
  if (graph_.dropout_seed != kNone) given[graph_.dropout_seed] = seed_.data();
  if (graph_.loss_scale != kNone) given[graph_.loss_scale] = loss_scale_.data();
  for (ValueId v : graph_.trainable) given[v] = parameters_.values(begin_of(v));
  const int left = run.part.parts - 1 - run.part.number;
  for (const TrainingGraph::State& state : graph_.states) {
    const std::string& name = graph_.graph.value(state.param).name;
    given[state.param] = run.part.number == 0
                             ? run.statistics->now(name)
                             : run.statistics->next(name, run.part.shard, left + 1);
  }
  std::vector<const void*> in_order;
  for (ValueId v : plan_.bindings()) in_order.push_back(given.at(v));
  return in_order;
}

void PreparedStep::run(const Run& run, const Hooks& hooks) {
  auto seed = seed_.host().mutable_as<int64_t>();
  seed[0] = static_cast<int64_t>(seed_of_part(run.seed, run.part.shard, run.part.number));
  seed[1] = run.step - 1;
  loss_scale_.host().mutable_as<float>()[0] = static_cast<float>(run.loss_scale);
  for (StagedTensor& t : inputs_) t.send();
  for (StagedTensor* t : {&labels_, &weights_, &seed_, &loss_scale_}) t->send();

  std::vector<void*> outputs = {loss_.data(), logits_.data()};
  for (ValueId v : graph_.trainable) outputs.push_back(run.gradients + begin_of(v));
  const int left = run.part.parts - 1 - run.part.number;
  for (const TrainingGraph::State& state : graph_.states) {
    const std::string& name = graph_.graph.value(state.param).name;
    outputs.push_back(run.statistics->next(name, run.part.shard, left));
  }
  if (graph_.loss_scale != kNone) outputs.push_back(finite_.data());
  executor_.run(bindings(run), outputs, hooks);
}

void PreparedStep::report(const ShardPart& part, int64_t rows, ShardReport& to) {
  loss_.fetch();
  logits_.fetch();
  const bool scaled = graph_.loss_scale != kNone;
  if (scaled) finite_.fetch();
  if (part.number == 0) to = {};
  if (scaled && finite_.host().as<float>()[0] != 0) to.finite = 0;
  std::vector<Tensor> inputs = features();
  add_rows(to, loss_.host().as<float>()[0], logits_.host(),
           {inputs, labels_.host(), weights_.host()}, rows);
}

std::optional<size_t> PreparedStep::slot_of_binding(int k) const {
  const auto it = slots_.find(plan_.bindings()[static_cast<size_t>(k)]);
  if (it == slots_.end()) return std::nullopt;
  return it->second;
}

std::optional<size_t> PreparedStep::slot_of_output(int k) const {
  const size_t i = static_cast<size_t>(k) - StepGraph::kGradients;
  if (i >= graph_.trainable.size()) return std::nullopt;
  return slots_.at(graph_.trainable[i]);
}

}  // namespace ndtrain
