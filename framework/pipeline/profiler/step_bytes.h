// What the nodes of a step hold, from types alone.
#pragma once

#include <vector>

#include "framework/train/step_nodes.h"

namespace ndtrain {

// Of a node, as NodeProfile has them. What it makes is what other nodes' forward passes read of
// it. What it saves is what any backward pass reads of what it makes, each memory once: what only
// reshapes another value lies where that one lies. What is given to the step (rows) is saved by
// the first node that reads it so, and a parameter belongs to the first node that reads it.
struct NodeBytes {
  double activation = 0, saved = 0, trained = 0, frozen = 0;
  double gradients = 0;  // of values, not of parameters, that its backward pass reads and makes
};

std::vector<NodeBytes> step_bytes(const StepGraph& step, const StepNodes& nodes);

}  // namespace ndtrain
