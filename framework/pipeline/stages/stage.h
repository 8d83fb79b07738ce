// A training step cut into stages that hand values to one another: each node of its graph is one
// stage's, so that all stages together compute what the whole step does, sums in the same order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/train/step_graph.h"

namespace ndtrain {

// Nodes of a step graph as a graph of their own. `graph` has no other inputs and outputs, and its
// values have their names in the step.
struct StageGraph {
  Graph graph;
  std::vector<ValueId> inputs, outputs;  // as the step graph has them, in the order of `graph`
};

// A value of the step that another stage computes, or reads.
struct StagePort {
  ValueId value = kNone;
  int peer = 0;  // the stage it comes from, or goes to
  bool operator==(const StagePort&) const = default;
};

struct Stage {
  // With the inputs of the step that it reads (rows, labels, weights of rows, dropout's seed): a
  // value that arrives goes to whoever reads it straight from the stage that computes it.
  std::vector<StagePort> activations_in, activations_out;
  // A gradient that several stages have parts of is added up in the order of the whole step, each
  // sum in the first of the stages whose parts are in it: mostly from the last stage to the first,
  // each of which adds its own.
  std::vector<StagePort> gradients_in, gradients_out;

  StageGraph forward;   // its last outputs are what backward reads: saved
  StageGraph backward;  // empty where nothing is trained in this stage or before it
  // The same in two parts, for schedules that put the weights' gradients off: what the stages
  // before wait for, and the rest, which reads what the first part saves.
  StageGraph backward_input, backward_weight;

  std::vector<ValueId> saved;  // what backward reads besides gradients: of forward, or that came in
  std::vector<ValueId> parameters;  // trained here
  std::vector<ValueId> gradients;   // of these
  std::vector<size_t> states;       // running statistics (StepGraph::states) that forward updates
  int64_t saved_bytes = 0;

  bool trains() const { return !backward.graph.nodes().empty(); }
};

// stage_of[i] is the stage of the step's i-th forward node, from 0 on without gaps; the loss is the
// last one's. Throws Error: an edge that goes back, a stage without a node, a parameter that
// several stages train, or a step whose gradients are scaled (f16).
std::vector<Stage> make_stages(const StepGraph& step, std::span<const int> stage_of);

// stage_of of `stages` stages whose boundaries are as good as they can be where node i weighs
// cost[i]: the heaviest stage is as light as any cut of the nodes in their order has it.
std::vector<int> balanced_stages(std::span<const double> cost, int stages);

}  // namespace ndtrain
