#include "framework/graph/cuts.h"

#include <algorithm>
#include <set>

#include "framework/graph/uses.h"

namespace ndtrain {

std::vector<Cut> legal_cuts(const Graph& g) {
  const std::vector<bool> live = depends_on(g, g.inputs());
  const int end = static_cast<int>(g.nodes().size());
  const Uses<ValueId> uses = uses_of(g);
  std::vector<int64_t> params_from(g.nodes().size() + 1, 0);  // first read at node i or later
  std::set<ValueId> seen;
  for (int i = 0; i < end; ++i) {
    for (ValueId v : g.nodes()[static_cast<size_t>(i)].inputs) {
      if (v == kNone) continue;
      const bool fresh = g.value(v).kind == ValueKind::kParam && seen.insert(v).second;
      if (fresh) params_from[static_cast<size_t>(i)] += g.shape(v).count();
    }
  }
  for (size_t i = g.nodes().size(); i-- > 0;) params_from[i] += params_from[i + 1];

  std::vector<Cut> cuts;
  std::set<ValueId> crossing;  // values computed so far that something later reads
  for (ValueId v : g.inputs()) {
    if (uses.last_reader(v) >= 0) crossing.insert(v);
  }
  for (int i = 0; i < end; ++i) {
    for (ValueId v : g.nodes()[static_cast<size_t>(i)].outputs) {
      if (live[index(v)]) crossing.insert(v);
    }
    std::erase_if(crossing, [&](ValueId v) { return uses.last_reader(v) <= i; });
    if (crossing.size() != 1 || i + 1 == end) continue;
    const ValueId v = *crossing.begin();
    if (g.value(v).kind != ValueKind::kComputed || (!cuts.empty() && cuts.back().feature == v))
      continue;
    const auto next = static_cast<size_t>(i) + 1;
    cuts.push_back({v, next, g.shape(v).count(), params_from[next]});
  }
  return cuts;
}

}  // namespace ndtrain
