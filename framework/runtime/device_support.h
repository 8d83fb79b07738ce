// What a device itself, without its fallback, answers about a node whose ports are row-major.
#pragma once

#include <string>

#include "framework/runtime/backend.h"

namespace ndtrain {

// Why it has no kernel; "": it has one. Throws Error when the device fails.
std::string why_no_kernel(const Device& device, const Graph& g, const Node& n);

// Whether it says how it would lay one out; of a device of row-major ports alone, whether it has a
// kernel.
bool has_layout_for(const Device& device, const Graph& g, const Node& n);

}  // namespace ndtrain
