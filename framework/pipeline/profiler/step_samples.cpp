#include "framework/pipeline/profiler/step_samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/graph/uses.h"

namespace ndtrain {

NodeTime time_of(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  const auto count = static_cast<double>(seconds.size());
  NodeTime time;
  time.mean_s = std::accumulate(seconds.begin(), seconds.end(), 0.0) / count;
  double squares = 0;
  for (const double s : seconds) squares += (s - time.mean_s) * (s - time.mean_s);
  time.deviation_s = std::sqrt(squares / count);
  std::ranges::sort(seconds);
  const size_t half = seconds.size() / 2;
  time.median_s = seconds.size() % 2 == 1 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2;
  return time;
}

StepSamples::StepSamples(const StepGraph& step, const StepNodes& nodes)
    : places_(step.graph.nodes().size()) {
  for (auto& samples : samples_) samples.resize(nodes.nodes.size());
  const Uses<ValueId> uses = uses_of(step.graph);
  std::vector<bool> waited_for(step.graph.value_count());
  for (size_t i = places_.size(); i-- > 0;) {
    const bool undoes_scale = i >= step.made_for.size();
    const size_t part = undoes_scale ? nodes.nodes.size() - 1 : nodes.part_of[step.made_for[i]];
    places_[i] = {kForward, part};
    if (i < step.forward_nodes) continue;
    const Node& n = step.graph.nodes()[i];
    const bool first =
        std::ranges::any_of(n.outputs, [&](ValueId v) { return waited_for[index(v)]; });
    places_[i].side = first ? kInputGradient : kWeightGradient;
    for (const ValueId v : n.inputs) {
      const int producer = v == kNone ? -1 : uses.producer(v);
      if (producer < 0 || undoes_scale) continue;
      const auto p = static_cast<size_t>(producer);
      const bool elsewhere = p >= step.forward_nodes && nodes.part_of[step.made_for[p]] != part;
      if (first || elsewhere) waited_for[index(v)] = true;
    }
  }
}

void StepSamples::add(std::span<const double> seconds) {
  std::vector<double> sums[kSides];
  for (auto& side : sums) side.resize(samples_[kForward].size());
  for (size_t i = 0; i < places_.size(); ++i) sums[places_[i].side][places_[i].part] += seconds[i];
  for (size_t side = 0; side < kSides; ++side) {
    for (size_t n = 0; n < sums[side].size(); ++n) samples_[side][n].push_back(sums[side][n]);
  }
}

}  // namespace ndtrain
