// Stages as the schedules see them, and what travels between two of them.
#pragma once

#include <span>
#include <vector>

#include "framework/pipeline/schedules/pipe_shape.h"
#include "framework/pipeline/stages/stage.h"

namespace ndtrain {

// Of one mini-batch of so many micro-batches; `chunks` stages are of one rank. Two stages have an
// edge where one needs activations or gradients of the other.
PipeShape shape_of(std::span<const Stage> stages, int chunks, int64_t micro_batches);

// What goes to stage `peer`, or comes from there, in the order of the ports, which is the same at
// both ends.
std::vector<ValueId> values_with(std::span<const StagePort> ports, int peer);

}  // namespace ndtrain
