// Elementwise functions behind a product.
#pragma once

#include <optional>

#include "backends/onednn/dnnl.h"
#include "backends/onednn/node.h"

namespace ndtrain::onednn {

// Of a fused node: what its `steps` compute. Throws Unsupported for steps that the library does not
// have as one function.
std::optional<Activation> activation_of(const Node& node);

// Nothing, Relu or Clip.
bool is_clamp(const std::optional<Activation>& a);

Activation gelu_of(const Node& node);  // by its attribute `approximate`

}  // namespace ndtrain::onednn
