// AshPipe's graph.txt, which is PipeDream's: times in milliseconds, and no line end behind the last
// line.
//   node2 -- Conv2d(…) -- forward_compute_time=1.676, backward_compute_time=0.003,
//     activation_size=198246400.0, parameter_size=93184.000[ -- stage_id=0]       (one line)
//   <tab>node1 -- node2
// Nodes come first, then the edges into each, in the order of the nodes. What an input costs is the
// copy to the device, and loading.
#pragma once

#include <string>
#include <string_view>

#include "framework/pipeline/planner/model_profile.h"

namespace ndtrain {

// What a node saves is what it makes, unless it works in place; all parameters are trained; all of
// the backward pass counts as the gradient of what is read. Throws Error naming `file`, the line
// and what stands there: a torn or malformed one, an edge of a node that is not there, a part that
// no edge joins to the rest, what validate() refuses.
ModelProfile parse_graph_text(std::string_view text, const std::string& file);

// With the bytes that AshPipe would write. Throws Error where validate() does.
std::string graph_text(const ModelProfile& profile);

// As Python prints a float: 4.0, 0.25, 1e+16.
std::string python_float(double x);

}  // namespace ndtrain
