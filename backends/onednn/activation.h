// Activations by their names in the graph.
#pragma once

#include <optional>

#include "backends/onednn/dnnl.h"
#include "backends/onednn/node.h"

namespace ndtrain::onednn {

// Of a fused node: what its attribute `activation` names or its `steps` compute. Throws Unsupported
// for another name than Relu, Clip or Gelu, and for steps that the library does not have.
std::optional<Activation> activation_of(const Node& node);

Activation gelu_of(const Node& node);  // by its attribute `approximate`

}  // namespace ndtrain::onednn
