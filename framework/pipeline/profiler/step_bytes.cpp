#include "framework/pipeline/profiler/step_bytes.h"

#include <algorithm>
#include <set>

#include "framework/graph/op.h"
#include "framework/graph/uses.h"
#include "framework/runtime/memory_plan.h"

namespace ndtrain {
namespace {

class Bytes {
 public:
  Bytes(const StepGraph& step, const StepNodes& nodes)
      : step_(step), g_(step.graph), nodes_(nodes), uses_(uses_of(step.graph)) {
    for (size_t k = 0; k < step.trainable.size(); ++k) {
      weights_.insert(step.trainable[k]);
      weight_gradients_.insert(g_.outputs()[StepGraph::kGradients + k]);
    }
  }

  std::vector<NodeBytes> count() {
    bytes_.resize(nodes_.nodes.size());
    for (size_t i = 0; i < step_.forward_nodes; ++i) forward(i);
    for (size_t i = step_.forward_nodes; i < step_.made_for.size(); ++i) backward(i);
    for (size_t n = 0; n < bytes_.size(); ++n) {
      if (bytes_[n].activation == 0) bytes_[n].activation = size_of_first(nodes_.nodes[n]);
    }
    return std::move(bytes_);
  }

 private:
  double size(ValueId v) const { return static_cast<double>(g_.type(v).bytes()); }
  double size_of_first(size_t node) const { return size(g_.nodes()[node].outputs[0]); }
  size_t part_of(size_t node) const { return nodes_.part_of[step_.made_for[node]]; }
  bool is_forward(int node) const {
    return node >= 0 && static_cast<size_t>(node) < step_.forward_nodes;
  }

  void forward(size_t i) {
    NodeBytes& own = bytes_[part_of(i)];
    for (const ValueId v : g_.nodes()[i].outputs) {
      const auto elsewhere = [&](int reader) {
        return is_forward(reader) && part_of(static_cast<size_t>(reader)) != part_of(i);
      };
      if (std::ranges::any_of(uses_.readers(v), elsewhere)) own.activation += size(v);
    }
    for (const ValueId v : g_.nodes()[i].inputs) {
      if (v == kNone || g_.value(v).kind != ValueKind::kParam || !held_.insert(v).second) continue;
      (weights_.contains(v) ? own.trained : own.frozen) += size(v);
    }
  }

  void backward(size_t i) {
    const Node& n = g_.nodes()[i];
    NodeBytes& own = bytes_[part_of(i)];
    if (!works_in_place(i)) {
      for (const ValueId v : n.outputs) count_gradient(v, part_of(i), own);
    }
    for (const ValueId v : n.inputs) {
      if (v == kNone) continue;
      if (const int p = uses_.producer(v); p >= 0 && !is_forward(p)) {
        count_gradient(v, part_of(i), own);
      } else {
        save(v, part_of(i));
      }
    }
  }

  // What it makes may lie over a gradient that nobody reads later.
  bool works_in_place(size_t i) const {
    const Node& n = g_.nodes()[i];
    return find_op(n.op).facts.kind == OpKind::kMap &&
           std::ranges::any_of(n.inputs, [&](ValueId v) {
             return v != kNone && uses_.producer(v) >= 0 && !is_forward(uses_.producer(v)) &&
                    size(v) == size(n.outputs[0]) && uses_.last_reader(v) == static_cast<int>(i);
           });
  }

  void count_gradient(ValueId v, size_t part, NodeBytes& own) {
    if (!weight_gradients_.contains(v) && gradients_.insert({v, part}).second) {
      own.gradients += size(v);
    }
  }

  void save(ValueId v, size_t reader) {
    int p = uses_.producer(v);
    while (p >= 0 && is_view(g_.nodes()[static_cast<size_t>(p)])) {
      v = g_.nodes()[static_cast<size_t>(p)].inputs[0];
      p = uses_.producer(v);
    }
    const bool given = g_.value(v).kind == ValueKind::kInput;
    if ((p < 0 && !given) || !saved_.insert(v).second) return;
    bytes_[p < 0 ? reader : part_of(static_cast<size_t>(p))].saved += size(v);
  }

  const StepGraph& step_;
  const Graph& g_;
  const StepNodes& nodes_;
  const Uses<ValueId> uses_;
  std::set<ValueId> weights_, weight_gradients_, held_, saved_;
  std::set<std::pair<ValueId, size_t>> gradients_;
  std::vector<NodeBytes> bytes_;
};

}  // namespace

std::vector<NodeBytes> step_bytes(const StepGraph& step, const StepNodes& nodes) {
  return Bytes(step, nodes).count();
}

}  // namespace ndtrain
