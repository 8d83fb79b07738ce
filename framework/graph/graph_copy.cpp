#include <algorithm>

#include "framework/graph/graph.h"

namespace ndtrain {

ValueId GraphCopy::get(ValueId v) {
  if (v == kNone) return kNone;
  ValueId& copied = map_.at(index(v));
  if (copied != kNone) return copied;
  const Value& value = from_.value(v);
  switch (value.kind) {
    case ValueKind::kInput:
      return copied = to_.add_input(value.name, value.type);
    case ValueKind::kParam:
      return copied = value.data.defined() ? to_.add_param(value.name, value.data)
                                           : to_.add_param(value.name, value.type);
    case ValueKind::kConstant:
      return copied = to_.add_constant(value.name, value.data);
    case ValueKind::kComputed:
      if (computed_ == Computed::kInput) return copied = to_.add_input(value.name, value.type);
      break;
  }
  throw Error("'", value.name, "' is used before the node that computes it is copied");
}

void GraphCopy::copy(const Node& n) {
  std::vector<ValueId> in;
  for (ValueId v : n.inputs) in.push_back(get(v));
  const std::vector<ValueId> out =
      to_.add(n.op, std::move(in), n.attrs, static_cast<int>(n.outputs.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    to_.rename(out[i], from_.value(n.outputs[i]).name);
    map_[index(n.outputs[i])] = out[i];
  }
}

void GraphCopy::replace(ValueId v, ValueId by) { map_.at(index(v)) = by; }

void GraphCopy::keep_inputs() {
  for (ValueId v : from_.inputs()) get(v);
}

Graph GraphCopy::finish() {
  for (ValueId v : from_.outputs()) to_.mark_output(get(v));
  return std::move(to_);
}

Graph remove_dead_nodes(const Graph& g) {
  std::vector<bool> live(g.value_count());
  for (ValueId v : g.outputs()) live[index(v)] = true;
  std::vector<bool> keep(g.nodes().size());
  for (size_t i = g.nodes().size(); i-- > 0;) {
    const Node& n = g.nodes()[i];
    keep[i] = std::ranges::any_of(n.outputs, [&](ValueId v) { return live[index(v)]; });
    if (!keep[i]) continue;
    for (ValueId v : n.inputs) {
      if (v != kNone) live[index(v)] = true;
    }
  }
  GraphCopy copy(g);
  copy.keep_inputs();
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    if (keep[i]) copy.copy(g.nodes()[i]);
  }
  return copy.finish();
}

}  // namespace ndtrain
