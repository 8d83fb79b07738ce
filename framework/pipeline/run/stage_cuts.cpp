#include "framework/pipeline/run/stage_cuts.h"

#include <map>

#include "framework/graph/arithmetic.h"
#include "framework/pipeline/stages/stage.h"
#include "framework/train/step_nodes.h"

namespace ndtrain {
namespace {

// Of each forward node, where each of `nodes` is in the stage given.
std::vector<int> with_what_belongs_to_them(const StepNodes& nodes, const std::vector<int>& stages) {
  std::vector<int> stage_of;
  for (const size_t part : nodes.part_of) stage_of.push_back(stages[part]);
  return stage_of;
}

}  // namespace

// What is computed nowhere in sums of products still reads and writes: an operation for each value.
std::vector<int> cut_by_operations(const StepGraph& step, int stages) {
  const Graph& g = step.graph;
  const StepNodes nodes = step_nodes(step);
  std::vector<double> cost(nodes.nodes.size());
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    cost[nodes.part_of[step.made_for[i]]] +=
        arithmetic(g, n) + static_cast<double>(g.shape(n.outputs[0]).count());
  }
  return with_what_belongs_to_them(nodes, balanced_stages(cost, stages));
}

std::vector<int> cut_by_names(const StepGraph& step,
                              std::span<const std::vector<std::string>> stages) {
  constexpr int kNowhere = -1;
  const StepNodes nodes = step_nodes(step);
  std::map<std::string, size_t> numbers;
  for (size_t n = 0; n < nodes.names.size(); ++n) numbers[nodes.names[n]] = n;
  std::vector<int> stage_of(nodes.names.size(), kNowhere);
  for (int s = 0; const std::vector<std::string>& names : stages) {
    for (const std::string& name : names) {
      const auto node = numbers.find(name);
      if (node == numbers.end()) {
        throw Error("the plan has the node '", name, "' in stage ", s,
                    ", and this model's training step has none of that name: the plan is of "
                    "another model, or of another part of it");
      }
      if (stage_of[node->second] != kNowhere) {
        throw Error("the plan has the node '", name, "' twice");
      }
      stage_of[node->second] = s;
    }
    ++s;
  }
  for (size_t n = 0; n < stage_of.size(); ++n) {
    if (stage_of[n] != kNowhere) continue;
    throw Error(
        "the plan has no stage for the node '", nodes.names[n],
        "': it is of another model, or of another part of this one; ndtrain profile with the "
        "--freeze and --compute of this training measures it");
  }
  return with_what_belongs_to_them(nodes, stage_of);
}

}  // namespace ndtrain
