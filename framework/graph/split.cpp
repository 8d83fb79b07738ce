#include "framework/graph/split.h"

#include <algorithm>

namespace ndtrain {
namespace {

// Nodes of the trainable half: those of `back`, and what they need of nodes that read no input.
std::vector<bool> rear_nodes(const Graph& g, const std::vector<bool>& back,
                             const std::vector<bool>& may_cross) {
  std::vector<bool> rear(g.nodes().size());
  std::vector<bool> needed(g.value_count());
  for (ValueId v : g.outputs()) needed[index(v)] = !may_cross[index(v)];
  for (size_t i = g.nodes().size(); i-- > 0;) {
    const Node& n = g.nodes()[i];
    rear[i] = std::ranges::any_of(n.outputs,
                                  [&](ValueId v) { return back[index(v)] || needed[index(v)]; });
    if (!rear[i]) continue;
    for (ValueId v : n.inputs) {
      if (v != kNone && !may_cross[index(v)]) needed[index(v)] = true;
    }
  }
  return rear;
}

// `back[v]`: value v is computed in the trainable half. A value that may not cross is computed in
// both halves when both need it.
Split cut(const Graph& g, const std::vector<bool>& back, const std::vector<bool>& may_cross) {
  const std::vector<bool> rear_has = rear_nodes(g, back, may_cross);
  std::vector<bool> produced_in_front(g.value_count());
  for (const Node& n : g.nodes()) {
    for (ValueId v : n.outputs) {
      produced_in_front[index(v)] = !back[index(v)] && may_cross[index(v)];
    }
  }
  // In the order in which the trainable half first asks for them.
  std::vector<ValueId> crossing;
  auto cross = [&](ValueId v) {
    if (v == kNone || !produced_in_front[index(v)]) return;
    if (std::ranges::find(crossing, v) == crossing.end()) crossing.push_back(v);
  };
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    if (!rear_has[i]) continue;
    for (ValueId v : g.nodes()[i].inputs) cross(v);
  }
  for (ValueId v : g.outputs()) cross(v);

  GraphCopy front(g), rear(g);
  Split s;
  for (ValueId v : crossing) {
    s.features.push_back(g.value(v).name);
    rear.replace(v, rear.graph().add_input(g.value(v).name, g.type(v)));
  }
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    if (!back[index(n.outputs[0])]) front.copy(n);
    if (rear_has[i]) rear.copy(n);
  }
  for (ValueId v : crossing) front.graph().mark_output(front.get(v));
  s.extractor = std::move(front.graph());
  s.trainable = rear.finish();
  return s;
}

}  // namespace

Split split(const Graph& g, std::span<const ValueId> trainable) {
  if (trainable.empty()) throw Error("split: nothing is trainable");
  return cut(g, depends_on(g, trainable), depends_on(g, g.inputs()));
}

Split split_after(const Graph& g, size_t nodes) {
  std::vector<bool> back(g.value_count());
  for (size_t i = nodes; i < g.nodes().size(); ++i) {
    for (ValueId v : g.nodes()[i].outputs) back[index(v)] = true;
  }
  return cut(g, back, std::vector<bool>(g.value_count(), true));
}

Split split_at(const Graph& g, std::span<const ValueId> features,
               std::span<const ValueId> trainable) {
  const std::vector<bool> tuned = depends_on(g, trainable);
  for (ValueId v : features) {
    if (tuned[index(v)]) {
      throw Error("split: '", g.value(v).name, "' depends on a trainable parameter; cut earlier");
    }
  }
  // Whatever the features need lies in front; everything else behind.
  std::vector<bool> front(g.value_count());
  for (ValueId v : features) front[index(v)] = true;
  for (size_t i = g.nodes().size(); i-- > 0;) {
    const Node& n = g.nodes()[i];
    bool any = false;
    for (ValueId v : n.outputs) any |= front[index(v)];
    if (!any) continue;
    for (ValueId v : n.outputs) front[index(v)] = true;
    for (ValueId v : n.inputs) {
      if (v != kNone) front[index(v)] = true;
    }
  }
  front.flip();
  return cut(g, front, depends_on(g, g.inputs()));
}

}  // namespace ndtrain
