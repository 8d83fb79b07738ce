// For ops whose fast kernel is f32 only: 16-bit floats are widened into the workspace, the f32
// kernel runs, what it gives is rounded. Bits depend on what those of the f32 kernel depend on.
#pragma once

#include "backends/cpu/kernels/kernel.h"

namespace ndtrain::cpu {

inline bool is_half(ndt_dtype t) { return t == NDT_F16 || t == NDT_BF16; }

// `make` is given the node with f32 wherever it has 16-bit floats. Refuses gaps in the output.
std::unique_ptr<Kernel> by_way_of_f32(const Node& node, KernelFactory make);

}  // namespace ndtrain::cpu
