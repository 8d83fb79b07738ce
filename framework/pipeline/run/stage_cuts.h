// In which stage each forward node of a step is.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/train/step_graph.h"

namespace ndtrain {

// Into so many stages, none of which has more to compute than need be, by what the operations of
// its nodes are, forward and backward (balanced_stages()). Throws Error of more stages than nodes.
std::vector<int> cut_by_operations(const StepGraph& step, int stages);

// The nodes of each stage by what they make first. What is not named goes with the last node that
// it reads from; where it reads from none, with the first that reads from it. Throws Error: a name
// that is no node's of the step, or is given twice.
std::vector<int> cut_by_names(const StepGraph& step,
                              std::span<const std::vector<std::string>> stages);

// What a running statistic becomes is computed where it is read: the nodes from the one to the
// other are in the last of their stages from now on.
void keep_statistics_together(const StepGraph& step, std::vector<int>& stage_of);

}  // namespace ndtrain
