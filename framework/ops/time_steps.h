// A sequence along the first axis as its steps, and back, whatever their number: a node has
// limits::kPorts ports, so that longer ones are split and put together in two rounds.
#pragma once

#include <vector>

#include "framework/graph/op.h"

namespace ndtrain {

// x [steps, …] as values […], in order.
std::vector<ValueId> steps_of(Graph& g, ValueId x);

// The reverse: values […] of one type as [steps, …]. There is at least one.
ValueId stacked(Graph& g, const std::vector<ValueId>& steps);

// Throws Error for a sequence of no steps or of more than limits::kLoopTrips, which would be as
// many times the nodes.
void check_steps_of(int64_t steps);

}  // namespace ndtrain
