// The forward nodes of a step as a profile and a plan of stages count them: those on the way from
// the rows to the loss, each with what belongs to it.
#pragma once

#include <string>
#include <vector>

#include "framework/train/step_graph.h"

namespace ndtrain {

struct StepNodes {
  std::vector<size_t> nodes;       // on the way, in their order
  std::vector<std::string> names;  // of the value that each makes first; no two are alike
  std::vector<size_t> part_of;     // of each forward node of the step, which of `nodes` it is with
};

// What the loss does not depend on (the next running statistics) is with the last node that it
// reads from. What no row reaches (a dropout mask, arithmetic on weights) is with the first that
// reads from it. A name that is there already gets its number: "y", "y#2".
StepNodes step_nodes(const StepGraph& step);

}  // namespace ndtrain
