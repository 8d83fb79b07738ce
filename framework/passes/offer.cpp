#include "framework/passes/offer.h"

#include <algorithm>
#include <map>

namespace ndtrain {

bool is_taken(const Graph& g, const FusedNode& fused, std::span<const ValueId> varying,
              const Offer& accepts) {
  Graph alone;
  std::vector<ValueId> in;
  for (const ValueId v : fused.inputs) {
    const std::string name = "x" + std::to_string(in.size());
    const bool constant =
        g.value(v).data.defined() && std::ranges::find(varying, v) == varying.end();
    in.push_back(constant ? alone.add_param(name, g.value(v).data)
                          : alone.add_input(name, g.type(v)));
  }
  alone.add1(fused.op, std::move(in), fused.attrs);
  return accepts(alone, alone.nodes().back());
}

Rewritten with_fused(const Graph& g, std::span<const ValueId> keep,
                     const std::vector<FusedNode>& fused) {
  std::map<int, const FusedNode*> by_last;
  std::vector<bool> inner(g.nodes().size(), false);
  for (const FusedNode& f : fused) {
    by_last.emplace(f.nodes.back(), &f);
    for (const int i : f.nodes) inner[static_cast<size_t>(i)] = true;
  }
  GraphCopy copy(g);
  copy.keep_inputs();
  for (ValueId v : keep) copy.get(v);
  for (int i = 0; i < static_cast<int>(g.nodes().size()); ++i) {
    const Node& n = g.nodes()[static_cast<size_t>(i)];
    const auto found = by_last.find(i);
    if (found == by_last.end()) {
      if (!inner[static_cast<size_t>(i)]) copy.copy(n);
      continue;
    }
    const FusedNode& f = *found->second;
    std::vector<ValueId> in;
    for (ValueId v : f.inputs) in.push_back(copy.get(v));
    const ValueId y = copy.graph().add1(f.op, std::move(in), f.attrs);
    copy.graph().rename(y, g.value(n.outputs[0]).name);
    copy.replace(n.outputs[0], y);
  }
  Rewritten result{.graph = copy.finish(), .now = copy.now()};
  return result;
}

}  // namespace ndtrain
