#include "framework/train/useful_cuts.h"

#include <algorithm>

#include "framework/graph/cuts.h"
#include "framework/train/head.h"

namespace ndtrain {
namespace {

bool reads_weights(const Graph& g, const Node& n) {
  return std::ranges::any_of(n.inputs, [&](ValueId v) {
    return v != kNone && g.value(v).kind == ValueKind::kParam && g.shape(v).rank() >= 2;
  });
}

size_t first_trained_node(const Graph& g, const std::vector<std::string>& trainable) {
  const auto trained = [&](ValueId v) {
    return v != kNone && std::ranges::find(trainable, g.value(v).name) != trainable.end();
  };
  const auto at = std::ranges::find_if(
      g.nodes(), [&](const Node& n) { return std::ranges::any_of(n.inputs, trained); });
  return static_cast<size_t>(at - g.nodes().begin());
}

}  // namespace

std::vector<std::vector<std::string>> useful_cuts(const Model& whole,
                                                  const std::vector<std::string>& trainable) {
  const std::vector<std::string> last = feature_names(whole, trainable);
  if (last.empty()) return {};
  const Graph g = bind(whole, 1);
  const size_t end = first_trained_node(g, trainable);
  std::vector<Cut> cuts = legal_cuts(g);
  std::erase_if(cuts, [&](const Cut& c) { return c.nodes_before > end; });

  std::vector<std::vector<std::string>> useful;
  for (size_t i = 0; i < cuts.size(); ++i) {
    const bool is_last = i + 1 == cuts.size();
    const size_t next = is_last ? end : cuts[i + 1].nodes_before;
    const bool works =
        std::any_of(g.nodes().begin() + static_cast<std::ptrdiff_t>(cuts[i].nodes_before),
                    g.nodes().begin() + static_cast<std::ptrdiff_t>(next),
                    [&](const Node& n) { return reads_weights(g, n); });
    if (!is_last && !works && cuts[i + 1].elements <= cuts[i].elements) continue;
    useful.push_back({g.value(cuts[i].feature).name});
  }
  if (useful.empty() || useful.back() != last) useful.push_back(last);
  return useful;
}

std::string cut_name(const std::vector<std::string>& cut) {
  std::string name;
  for (const std::string& value : cut) name += (name.empty() ? "" : "+") + value;
  return name;
}

}  // namespace ndtrain
