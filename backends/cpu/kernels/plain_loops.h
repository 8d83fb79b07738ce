#pragma once

#include "backends/cpu/kernels/kernel.h"

namespace ndtrain::cpu {

// Of a kernel in plain loops whose f32 twin is made for speed, and perhaps more than ten times
// faster: a warning, once for each op and dtype.
void say_plain_loops(const Node& node);

}  // namespace ndtrain::cpu
