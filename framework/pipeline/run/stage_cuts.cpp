#include "framework/pipeline/run/stage_cuts.h"

#include <algorithm>
#include <map>

#include "framework/graph/arithmetic.h"
#include "framework/graph/uses.h"
#include "framework/pipeline/stages/stage.h"

namespace ndtrain {
namespace {

constexpr int kNowhere = -1;

void follow_readers(const Graph& g, std::vector<int>& stage_of) {
  const Uses<ValueId> uses = uses_of(g);
  for (size_t i = stage_of.size(); i-- > 0;) {
    if (stage_of[i] != kNowhere) continue;
    for (ValueId v : g.nodes()[i].outputs) {
      for (const int reader : uses.readers(v)) {
        const auto r = static_cast<size_t>(reader);
        if (r >= stage_of.size() || stage_of[r] == kNowhere) continue;
        stage_of[i] = stage_of[i] == kNowhere ? stage_of[r] : std::min(stage_of[i], stage_of[r]);
      }
    }
  }
}

void follow_what_is_read(const Graph& g, std::vector<int>& stage_of) {
  const Uses<ValueId> uses = uses_of(g);
  for (size_t i = 0; i < stage_of.size(); ++i) {
    if (stage_of[i] != kNowhere) continue;
    for (ValueId v : g.nodes()[i].inputs) {
      const int producer = v == kNone ? -1 : uses.producer(v);
      if (producer >= 0) {
        stage_of[i] = std::max(stage_of[i], stage_of[static_cast<size_t>(producer)]);
      }
    }
  }
}

// Of each running statistic, the nodes from where it is read to where the next one is made.
std::vector<std::vector<size_t>> ways_of_statistics(const StepGraph& step) {
  const Graph& g = step.graph;
  std::vector<std::vector<size_t>> ways;
  for (const TrainingGraph::State& state : step.states) {
    const std::vector<bool> reached = depends_on(g, {&state.param, 1});
    std::vector<bool> needed(g.value_count());
    needed[index(state.output)] = true;
    std::vector<size_t>& way = ways.emplace_back();
    for (size_t i = step.forward_nodes; i-- > 0;) {
      const Node& n = g.nodes()[i];
      if (std::ranges::none_of(n.outputs, [&](ValueId v) { return needed[index(v)]; })) continue;
      for (ValueId v : n.inputs) {
        if (v != kNone) needed[index(v)] = true;
      }
      if (reached[index(n.outputs[0])]) way.insert(way.begin(), i);
    }
  }
  return ways;
}

}  // namespace

// What is computed nowhere in sums of products still reads and writes: an operation for each value.
// What running statistics become follows what it is made of, and fills no stage.
std::vector<int> cut_by_operations(const StepGraph& step, int stages) {
  const Graph& g = step.graph;
  std::vector<double> cost(step.forward_nodes);
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    cost[step.made_for[i]] += arithmetic(g, n) + static_cast<double>(g.shape(n.outputs[0]).count());
  }
  std::vector<bool> follows(cost.size());
  for (const std::vector<size_t>& way : ways_of_statistics(step)) {
    for (const size_t i : way) follows[i] = i != way.front();
  }
  std::vector<size_t> nodes;
  std::vector<double> costs;
  for (size_t i = 0; i < cost.size(); ++i) {
    if (follows[i]) continue;
    nodes.push_back(i);
    costs.push_back(cost[i]);
  }
  const std::vector<int> cut = balanced_stages(costs, stages);
  std::vector<int> stage_of(cost.size(), kNowhere);
  for (size_t k = 0; k < nodes.size(); ++k) stage_of[nodes[k]] = cut[k];
  follow_what_is_read(g, stage_of);
  follow_readers(g, stage_of);
  keep_statistics_together(step, stage_of);
  return stage_of;
}

std::vector<int> cut_by_names(const StepGraph& step,
                              std::span<const std::vector<std::string>> stages) {
  const Graph& g = step.graph;
  std::map<std::string, size_t> nodes;
  for (size_t i = 0; i < step.forward_nodes; ++i) {
    nodes.emplace(g.value(g.nodes()[i].outputs[0]).name, i);
  }
  std::vector<int> stage_of(step.forward_nodes, kNowhere);
  for (int s = 0; const std::vector<std::string>& names : stages) {
    for (const std::string& name : names) {
      const auto node = nodes.find(name);
      if (node == nodes.end()) {
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
  follow_what_is_read(g, stage_of);
  follow_readers(g, stage_of);
  std::ranges::replace(stage_of, kNowhere, 0);
  keep_statistics_together(step, stage_of);
  return stage_of;
}

void keep_statistics_together(const StepGraph& step, std::vector<int>& stage_of) {
  for (const std::vector<size_t>& way : ways_of_statistics(step)) {
    for (const size_t i : way) stage_of[i] = stage_of[way.front()];
  }
}

}  // namespace ndtrain
