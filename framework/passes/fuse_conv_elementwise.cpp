#include "framework/passes/fuse_conv_elementwise.h"

#include <algorithm>
#include <optional>

#include "framework/graph/elementwise_steps.h"
#include "framework/graph/uses.h"

namespace ndtrain {
namespace {

using Kind = ElementwiseOperand::Kind;

// Of a convolution's result.
struct Function {
  std::vector<ElementwiseStep> steps;
  std::vector<int> nodes;
};

class Search {
 public:
  explicit Search(const Graph& g) : g_(g), uses_(g) {}

  std::optional<FusedNode> from(int conv) const {
    const Node& n = node(conv);
    if (n.op != "Conv" && n.op != "FusedConv") return {};
    if (n.attrs.has("activation") && !n.attrs.s("activation").empty()) return {};
    std::optional<Function> f = function_of(n.outputs[0]);
    if (!f) return {};
    FusedNode fused{"ConvElementwise", n.inputs, n.attrs, std::move(f->nodes)};
    while (fused.inputs.back() == kNone) fused.inputs.pop_back();
    if (std::ranges::find(fused.inputs, kNone) != fused.inputs.end()) return {};
    fused.nodes.insert(fused.nodes.begin(), conv);
    fused.attrs.set("steps", text_of(f->steps));
    return fused;
  }

 private:
  const Node& node(int i) const { return g_.nodes()[static_cast<size_t>(i)]; }

  std::optional<Function> function_of(ValueId y) const {
    const int reader = uses_.last_consumer(y);
    if (reader < 0) return {};
    const Node& n = node(reader);
    const ElementwiseOperand x{Kind::kInput};
    if (uses_.only_once(y) && elementwise_operands(n.op) == 1) {
      return Function{{{n.op, {x}, n.attrs}}, {reader}};
    }
    if (uses_.count(y) != 2 || n.op != "Mul") return {};
    const ValueId gate = n.inputs[0] == y ? n.inputs[1] : n.inputs[0];
    const int sigmoid = uses_.only_once(gate) ? uses_.producer(gate) : -1;
    if (sigmoid < 0 || node(sigmoid).op != "Sigmoid" || node(sigmoid).inputs[0] != y) return {};
    return Function{{{"Sigmoid", {x}, {}}, {"Mul", {x, {Kind::kStep, 0}}, {}}}, {sigmoid, reader}};
  }

  const Graph& g_;
  Uses uses_;
};

}  // namespace

Rewritten fuse_conv_elementwise(const Graph& g, std::span<const ValueId> keep,
                                const Offer& accepts) {
  const Search search(g);
  std::vector<FusedNode> all;
  for (int i = 0; i < static_cast<int>(g.nodes().size()); ++i) {
    std::optional<FusedNode> fused = search.from(i);
    if (fused && is_taken(g, *fused, keep, accepts)) all.push_back(std::move(*fused));
  }
  return with_fused(g, keep, all);
}

}  // namespace ndtrain
