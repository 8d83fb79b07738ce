#include "framework/graph/differentiate.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "framework/graph/op.h"

namespace ndtrain {
namespace {

// One sweep over the nodes that `g` had when it began, last to first.
class Backward {
 public:
  Backward(Graph& g, std::span<const ValueId> wrt)
      : g_(g), needed_(depends_on(g, wrt)), grad_(g.value_count(), kNone) {}

  void accumulate(ValueId v, ValueId dv) {
    ValueId& at = grad_[index(v)];
    at = at == kNone ? dv : g_.add1("Add", {at, dv});
  }

  void sweep(const Node& node) {
    std::vector<ValueId> dy;
    for (ValueId y : node.outputs) dy.push_back(grad_[index(y)]);
    if (std::ranges::all_of(dy, [](ValueId v) { return v == kNone; })) return;

    const size_t n = node.inputs.size();
    auto wanted = std::make_unique<bool[]>(n);
    bool any = false;
    for (size_t k = 0; k < n; ++k) {
      wanted[k] = node.inputs[k] != kNone && needed_[index(node.inputs[k])];
      any |= wanted[k];
    }
    if (!any) return;

    const OpDef& def = find_op(node.op);
    if (!def.gradient) throw Error(node.op, ": not differentiable, and a parameter lies before it");
    GradientContext context{g_, node, dy, {wanted.get(), n}};
    const std::vector<ValueId> dx = def.gradient(context);
    for (size_t k = 0; k < std::min(n, dx.size()); ++k) {
      if (!wanted[k] || dx[k] == kNone) continue;
      const ValueId x = node.inputs[k];
      if (g_.type(dx[k]) != g_.type(x)) {
        throw Error(node.op, ": its gradient of input ", k, " is ", g_.type(dx[k]), ", the input ",
                    g_.type(x));
      }
      accumulate(x, dx[k]);
    }
  }

  ValueId gradient(ValueId v) const { return grad_[index(v)]; }

 private:
  Graph& g_;
  std::vector<bool>
      needed_;  // depends on something in wrt; everything else is frozen, costs nothing
  std::vector<ValueId> grad_;
};

}  // namespace

std::vector<ValueId> differentiate(Graph& g, std::span<const ValueId> outputs,
                                   std::span<const ValueId> seeds, std::span<const ValueId> wrt,
                                   std::vector<size_t>* made_for) {
  if (outputs.size() != seeds.size()) {
    throw Error("differentiate: ", outputs.size(), " outputs but ", seeds.size(), " seeds");
  }
  const size_t forward_nodes = g.nodes().size();
  Backward backward(g, wrt);
  if (made_for) {
    made_for->resize(forward_nodes);
    std::iota(made_for->begin(), made_for->end(), size_t{0});
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (g.type(outputs[i]) != g.type(seeds[i])) {
      throw Error("differentiate: output '", g.value(outputs[i]).name, "' is ", g.type(outputs[i]),
                  " but its seed ", g.type(seeds[i]));
    }
    backward.accumulate(outputs[i], seeds[i]);
  }
  for (size_t i = forward_nodes; i-- > 0;) {
    const Node node = g.nodes()[i];  // by value: the sweep appends nodes and may move them
    backward.sweep(node);
    if (made_for) made_for->resize(g.nodes().size(), i);
  }
  std::vector<ValueId> result;
  for (ValueId v : wrt) {
    if (backward.gradient(v) == kNone) {
      throw Error("no gradient reaches '", g.value(v).name, "': no output depends on it");
    }
    result.push_back(backward.gradient(v));
  }
  return result;
}

}  // namespace ndtrain
