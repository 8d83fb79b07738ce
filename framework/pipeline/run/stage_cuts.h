// In which stage each forward node of a step is: with the node of step_nodes() that it belongs to.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/train/step_graph.h"

namespace ndtrain {

// Into so many stages, none of which has more to compute than need be, by what the operations of
// its nodes are, forward and backward (balanced_stages()). Throws Error of more stages than nodes.
std::vector<int> cut_by_operations(const StepGraph& step, int stages);

// The nodes of each stage by their names (step_nodes()). Throws Error: a name that is no node's of
// the step, or is given twice, or a node without a stage.
std::vector<int> cut_by_names(const StepGraph& step,
                              std::span<const std::vector<std::string>> stages);

}  // namespace ndtrain
