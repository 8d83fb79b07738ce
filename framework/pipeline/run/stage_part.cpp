#include "framework/pipeline/run/stage_part.h"

#include <algorithm>
#include <set>

namespace ndtrain {
namespace {

// Of the stage's graph.
std::vector<ValueId> bound_params(const StepGraph& step, const Graph& part) {
  std::set<std::string> bound;
  for (ValueId v : step.trainable) bound.insert(step.graph.value(v).name);
  for (const TrainingGraph::State& s : step.states) bound.insert(step.graph.value(s.param).name);
  std::vector<ValueId> params;
  for (ValueId v : part.params()) {
    if (bound.contains(part.value(v).name)) params.push_back(v);
  }
  return params;
}

bool goes_on(const Stage& stage, ValueId v) {
  const auto is_it = [v](const StagePort& port) { return port.value == v; };
  return std::ranges::any_of(stage.gradients_out, is_it) ||
         std::ranges::count(stage.backward_weight.inputs, v) > 0;
}

}  // namespace

bool StageValues::has(ValueId v) const {
  const auto it = entries_.find(v);
  return it != entries_.end() && it->second.there;
}

const void* StageValues::read(ValueId v) const {
  if (!has(v)) throw Error("pipeline: '", step_.value(v).name, "' is not there yet");
  return entries_.at(v).tensor.data();
}

void* StageValues::write(ValueId v) {
  Entry& e = entries_[v];
  if (!e.tensor.data()) e.tensor = DeviceTensor(device_, step_.type(v));
  e.there = true;
  return e.tensor.data();
}

int64_t StageValues::bytes() const {
  int64_t bytes = 0;
  for (const auto& [_, e] : entries_) bytes += static_cast<int64_t>(e.tensor.type().bytes());
  return bytes;
}

void StageValues::forget() {
  for (auto& [_, e] : entries_) e.there = false;
}

void copy_on(const Device& device, void* to, const void* from, size_t bytes) {
  if (device.shares_host_memory()) return device.upload(to, from, bytes);
  std::vector<std::byte> between(bytes);
  device.download(between.data(), from, bytes);
  device.upload(to, between.data(), bytes);
}

StagePart::StagePart(const StepGraph& step, const Stage& stage, const StageGraph& part,
                     const RankState& state)
    : state_(state),
      plan_(part.graph, state.device, {.bound_params = bound_params(step, part.graph)}),
      executor_(plan_, state.work) {
  bind_inputs(step, part);
  bind_outputs(step, stage, part);
  const auto of_state = [](const Binding& b) { return !b.state.empty(); };
  if (std::ranges::any_of(in_, of_state) && std::ranges::none_of(out_, of_state)) {
    throw Error("pipeline: a backward pass reads a running statistic, which later ones replace");
  }
}

void StagePart::bind_inputs(const StepGraph& step, const StageGraph& part) {
  std::set<std::string> states;
  for (const TrainingGraph::State& s : step.states) states.insert(step.graph.value(s.param).name);
  for (ValueId v : part.inputs) in_.push_back({.value = v});
  for (ValueId v : plan_.bindings().subspan(part.inputs.size())) {
    const std::string& name = part.graph.value(v).name;
    if (states.contains(name)) {
      in_.push_back({.state = name});
    } else {
      in_.push_back({.slot = static_cast<int>(state_.parameters.slot(name))});
    }
  }
}

void StagePart::bind_outputs(const StepGraph& step, const Stage& stage, const StageGraph& part) {
  std::map<ValueId, std::string> states;
  for (const size_t k : stage.states) {
    states[step.states[k].output] = step.graph.value(step.states[k].param).name;
  }
  std::multimap<ValueId, size_t> gradients;  // slots
  for (size_t k = 0; k < stage.gradients.size(); ++k) {
    const std::string& name = step.graph.value(stage.parameters[k]).name;
    gradients.emplace(stage.gradients[k], state_.parameters.slot(name));
  }
  for (ValueId v : part.outputs) {
    auto [slot, end] = gradients.equal_range(v);
    if (states.contains(v)) {
      out_.push_back({.state = states.at(v)});
    } else if (slot == end || goes_on(stage, v)) {
      out_.push_back({.value = v});
    } else {
      out_.push_back({.slot = static_cast<int>((slot++)->second)});
    }
    for (; slot != end; ++slot) copies_.emplace_back(out_.size() - 1, slot->second);
  }
}

// Where the next one goes.
float* StagePart::statistic(const std::string& name, const ShardPart& part, bool once_more) {
  if (!once_more) {
    return state_.statistics->next(name, part.shard, part.parts - 1 - part.number);
  }
  DeviceTensor& room = made_in_vain_[name];
  if (!room.data()) room = DeviceTensor(state_.device, state_.statistics->type(name));
  return static_cast<float*>(room.data());
}

float* StagePart::gradient(size_t slot, const ShardPart& part) const {
  float* const all =
      part.number == 0 ? state_.gradients.shard(part.shard) : state_.gradients.part();
  return all + range(slot).begin;
}

std::vector<const void*> StagePart::bindings(const MicroBatch& micro_batch,
                                             std::span<const StageValues* const> there) const {
  const ShardPart& part = micro_batch.part;
  const int left = part.parts - part.number;
  std::vector<const void*> bindings;
  for (const Binding& b : in_) {
    if (b.slot >= 0) {
      bindings.push_back(micro_batch.parameters + range(static_cast<size_t>(b.slot)).begin);
    } else if (!b.state.empty()) {
      bindings.push_back(part.number == 0 ? state_.statistics->now(b.state)
                                          : state_.statistics->next(b.state, part.shard, left));
    } else {
      const auto has = [&](const StageValues* values) { return values->has(b.value); };
      const auto in = std::ranges::find_if(there, has);
      bindings.push_back((in == there.end() ? there.front() : *in)->read(b.value));
    }
  }
  return bindings;
}

void StagePart::run(const MicroBatch& micro_batch, std::span<const StageValues* const> there,
                    StageValues& to, bool once_more) {
  const ShardPart& part = micro_batch.part;
  const std::vector<const void*> in = bindings(micro_batch, there);
  std::vector<void*> out;
  for (const Binding& b : out_) {
    if (b.slot >= 0) {
      out.push_back(gradient(static_cast<size_t>(b.slot), part));
    } else if (!b.state.empty()) {
      out.push_back(statistic(b.state, part, once_more));
    } else {
      out.push_back(to.write(b.value));
    }
  }
  const Hooks follow = hooks(micro_batch, to);
  executor_.run(in, out, follow);
  if (follow.ready) return;
  for (size_t k = 0; k < out_.size(); ++k) take_gradients(k, micro_batch, to, nullptr);
}

Hooks StagePart::hooks(const MicroBatch& micro_batch, const StageValues& to) const {
  if (!micro_batch.sync) return {};
  Hooks hooks;
  hooks.before = [this, &micro_batch](int binding, ndt_stream* stream) {
    const int slot = in_[static_cast<size_t>(binding)].slot;
    if (slot >= 0) micro_batch.sync->before_read(static_cast<size_t>(slot), stream);
  };
  if (!micro_batch.part.is_last()) return hooks;
  hooks.ready = [this, &micro_batch, &to](int output, ndt_stream* stream) {
    take_gradients(static_cast<size_t>(output), micro_batch, to, stream);
  };
  return hooks;
}

// Those that the output is.
void StagePart::take_gradients(size_t output, const MicroBatch& micro_batch, const StageValues& to,
                               ndt_stream* stream) const {
  const ShardPart& part = micro_batch.part;
  const Binding& b = out_[output];
  std::vector<size_t> slots;
  if (b.slot >= 0) slots.push_back(static_cast<size_t>(b.slot));
  for (const auto& [from, slot] : copies_) {
    if (from != output) continue;
    const void* const source =
        b.slot >= 0 ? gradient(static_cast<size_t>(b.slot), part) : to.read(b.value);
    copy_on(state_.device, gradient(slot, part), source,
            static_cast<size_t>(range(slot).size()) * sizeof(float));
    slots.push_back(slot);
  }
  for (const size_t slot : slots) {
    if (part.number > 0) state_.gradients.add_part(part.shard, range(slot));
    if (!micro_batch.sync || !part.is_last()) continue;
    state_.gradients.add(part.shard, range(slot));
    micro_batch.sync->gradient_ready(slot, stream);
  }
}

}  // namespace ndtrain
