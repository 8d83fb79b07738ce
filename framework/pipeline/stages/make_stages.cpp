#include <algorithm>
#include <map>
#include <set>

#include "framework/graph/uses.h"
#include "framework/pipeline/stages/stage.h"

namespace ndtrain {
namespace {

using Nodes = std::vector<bool>;  // of the step's graph

StageGraph graph_of(const Graph& step, const Nodes& nodes, std::vector<ValueId> outputs) {
  GraphCopy copy(step, GraphCopy::Computed::kInput);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]) copy.copy(step.nodes()[i]);
  }
  std::map<ValueId, ValueId> was;
  for (size_t v = 0; v < step.value_count(); ++v) {
    if (copy.now()[v] != kNone) was[copy.now()[v]] = ValueId(v);
  }
  StageGraph s;
  for (ValueId v : outputs) copy.graph().mark_output(copy.get(v));
  s.outputs = std::move(outputs);
  s.graph = std::move(copy.graph());
  for (ValueId v : s.graph.inputs()) s.inputs.push_back(was.at(v));
  return s;
}

// Values in the order in which they were first added, each once.
class ValueList {
 public:
  void add(ValueId v) {
    if (there_.insert(v).second) list_.push_back(v);
  }
  bool has(ValueId v) const { return there_.contains(v); }
  std::vector<ValueId> take() { return std::move(list_); }

 private:
  std::set<ValueId> there_;
  std::vector<ValueId> list_;
};

class Cut {
 public:
  Cut(const StepGraph& step, std::span<const int> stage_of)
      : step_(step), g_(step.graph), uses_(uses_of(step.graph)) {
    if (step.loss_scale != kNone) {
      throw Error("a step that is cut into stages computes in f32 or bf16, not in f16");
    }
    if (stage_of.size() != step.forward_nodes) {
      throw Error("a stage for ", stage_of.size(), " nodes, but the step's forward part has ",
                  step.forward_nodes);
    }
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      stage_of_.push_back(backward_stage(i, stage_of[step.made_for[i]]));
    }
    check_stages(stage_of);
    stages_.resize(static_cast<size_t>(stage_of.back()) + 1);
  }

  std::vector<Stage> make() {
    for (size_t i = 0; i < g_.nodes().size(); ++i) find_ports(i);
    own_parameters();
    for (size_t s = 0; s < stages_.size(); ++s) make_graphs(static_cast<int>(s));
    return std::move(stages_);
  }

 private:
  bool is_forward(size_t node) const { return node < step_.forward_nodes; }

  // A gradient that is added to one of an earlier stage is added there: where branches are cut the
  // node whose part comes last need not be in the first of their stages.
  int backward_stage(size_t node, int stage) const {
    if (is_forward(node)) return stage;
    for (const ValueId v : g_.nodes()[node].inputs) {
      const int producer = v == kNone ? -1 : uses_.producer(v);
      if (producer < 0 || is_forward(static_cast<size_t>(producer))) continue;
      stage = std::min(stage, stage_of_[static_cast<size_t>(producer)]);
    }
    return stage;
  }

  void check_stages(std::span<const int> stage_of) const {
    const int last = stage_of.back();
    std::set<int> filled;
    for (size_t i = 0; i < stage_of.size(); ++i) {
      if (stage_of[i] < 0 || stage_of[i] > last) {
        throw Error(name_of(i), " is in stage ", stage_of[i], "; the loss is in stage ", last,
                    ", which has to be the last one");
      }
      filled.insert(stage_of[i]);
    }
    int next = 0;
    for (const int s : filled) {
      if (s != next++) throw Error("stage ", next - 1, " has no node; stage ", s, " has");
    }
  }

  std::string name_of(size_t node) const {
    const Node& n = g_.nodes()[node];
    return n.op + " '" + g_.value(n.outputs[0]).name + "'";
  }

  // Of what node `reader` needs and another stage computes.
  void find_ports(size_t reader) {
    const int to = stage_of_[reader];
    for (ValueId v : g_.nodes()[reader].inputs) {
      const int producer = v == kNone ? -1 : uses_.producer(v);
      if (producer < 0) continue;
      const auto i = static_cast<size_t>(producer);
      const int from = stage_of_[i];
      if (is_forward(i)) {
        if (from > to) {
          throw Error(name_of(reader), " of stage ", to, " reads ", name_of(i), " of stage ", from,
                      ": an edge may not go back");
        }
        if (from < to) connect(v, from, to, &Stage::activations_out, &Stage::activations_in);
        if (!is_forward(reader)) saved_[to].add(v);
      } else if (from != to) {
        connect(v, from, to, &Stage::gradients_out, &Stage::gradients_in);
      }
    }
    if (is_forward(reader)) return;
    for (ValueId v : g_.nodes()[reader].inputs) {
      if (v != kNone && g_.value(v).kind == ValueKind::kInput) saved_[to].add(v);
    }
  }

  void connect(ValueId v, int from, int to, std::vector<StagePort> Stage::*out,
               std::vector<StagePort> Stage::*in) {
    if (!connected_.insert({v, to}).second) return;
    (stages_[static_cast<size_t>(from)].*out).push_back({v, to});
    (stages_[static_cast<size_t>(to)].*in).push_back({v, from});
  }

  void own_parameters() {
    std::map<ValueId, int> owner;
    for (size_t i = 0; i < step_.forward_nodes; ++i) {
      for (ValueId v : g_.nodes()[i].inputs) {
        if (std::ranges::count(step_.trainable, v) == 0) continue;
        const int s = stage_of_[i];
        if (owner.emplace(v, s).first->second != s) {
          throw Error("the parameter '", g_.value(v).name, "' is trained in stage ", owner[v],
                      " and in stage ", s, "; the nodes that read it belong into one");
        }
      }
    }
    for (size_t k = 0; k < step_.trainable.size(); ++k) {
      Stage& s = stages_[static_cast<size_t>(owner.at(step_.trainable[k]))];
      s.parameters.push_back(step_.trainable[k]);
      s.gradients.push_back(g_.outputs()[StepGraph::kGradients + k]);
    }
    for (size_t k = 0; k < step_.states.size(); ++k) {
      const auto producer = static_cast<size_t>(uses_.producer(step_.states[k].output));
      stages_[static_cast<size_t>(stage_of_[producer])].states.push_back(k);
    }
  }

  void make_graphs(int number) {
    Stage& s = stages_[static_cast<size_t>(number)];
    s.saved = saved_[number].take();
    Nodes forward(g_.nodes().size()), backward(g_.nodes().size());
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      if (stage_of_[i] == number) (is_forward(i) ? forward : backward)[i] = true;
    }
    s.forward = graph_of(g_, forward, forward_outputs(s, forward));
    s.backward = graph_of(g_, backward, backward_outputs(s));
    split_backward(s, backward);
    for (ValueId v : s.saved) s.saved_bytes += static_cast<int64_t>(g_.type(v).bytes());
  }

  bool computed_by(const Nodes& nodes, ValueId v) const {
    const int producer = uses_.producer(v);
    return producer >= 0 && nodes[static_cast<size_t>(producer)];
  }

  std::vector<ValueId> forward_outputs(const Stage& s, const Nodes& forward) const {
    ValueList outputs;
    for (ValueId v : {g_.outputs()[0], g_.outputs()[1]}) {  // loss, logits
      if (computed_by(forward, v)) outputs.add(v);
    }
    for (const StagePort& port : s.activations_out) outputs.add(port.value);
    for (const size_t k : s.states) outputs.add(step_.states[k].output);
    for (ValueId v : s.saved) {
      if (computed_by(forward, v)) outputs.add(v);
    }
    return outputs.take();
  }

  static std::vector<ValueId> backward_outputs(const Stage& s) {
    ValueList outputs;
    for (const StagePort& port : s.gradients_out) outputs.add(port.value);
    for (ValueId v : s.gradients) outputs.add(v);
    return outputs.take();
  }

  void split_backward(Stage& s, const Nodes& backward) const {
    ValueList needed;
    for (const StagePort& port : s.gradients_out) needed.add(port.value);
    Nodes first(backward.size()), rest = backward;
    for (size_t i = backward.size(); i-- > 0;) {
      const Node& n = g_.nodes()[i];
      if (!backward[i] || std::ranges::none_of(n.outputs, [&](ValueId v) { return needed.has(v); }))
        continue;
      first[i] = true;
      rest[i] = false;
      for (ValueId v : n.inputs) needed.add(v);
    }
    ValueList outputs, later;
    for (const StagePort& port : s.gradients_out) outputs.add(port.value);
    for (ValueId v : s.gradients) (computed_by(first, v) ? outputs : later).add(v);
    for (size_t i = 0; i < rest.size(); ++i) {
      if (!rest[i]) continue;
      for (ValueId v : g_.nodes()[i].inputs) {
        if (v != kNone && computed_by(first, v)) outputs.add(v);
      }
    }
    s.backward_input = graph_of(g_, first, outputs.take());
    s.backward_weight = graph_of(g_, rest, later.take());
  }

  const StepGraph& step_;
  const Graph& g_;
  const Uses<ValueId> uses_;
  std::vector<int> stage_of_;  // of every node
  std::vector<Stage> stages_;
  std::set<std::pair<ValueId, int>> connected_;
  std::map<int, ValueList> saved_;
};

}  // namespace

std::vector<Stage> make_stages(const StepGraph& step, std::span<const int> stage_of) {
  if (stage_of.empty()) throw Error("a step without nodes has no stages");
  return Cut(step, stage_of).make();
}

}  // namespace ndtrain
