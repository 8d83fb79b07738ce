#include "framework/pipeline/run/pipeline_cut.h"

#include <map>
#include <utility>

namespace ndtrain {

PipeShape shape_of(std::span<const Stage> stages, int chunks, int64_t micro_batches) {
  PipeShape shape{
      .stages = static_cast<int>(stages.size()), .chunks = chunks, .micro_batches = micro_batches};
  std::map<std::pair<int, int>, StageEdge> edges;
  const auto edge = [&](int from, int to) -> StageEdge& {
    return edges.try_emplace({from, to}, StageEdge{from, to, false, false}).first->second;
  };
  for (int s = 0; const Stage& stage : stages) {
    for (const StagePort& out : stage.activations_out) edge(s, out.peer).activation = true;
    for (const StagePort& out : stage.gradients_out) edge(out.peer, s).gradient = true;
    shape.forward_only.push_back(!stage.trains());
    ++s;
  }
  for (const auto& [_, e] : edges) shape.edges.push_back(e);
  validate(shape);
  return shape;
}

std::vector<ValueId> values_with(std::span<const StagePort> ports, int peer) {
  std::vector<ValueId> values;
  for (const StagePort& port : ports) {
    if (port.peer == peer) values.push_back(port.value);
  }
  return values;
}

}  // namespace ndtrain
