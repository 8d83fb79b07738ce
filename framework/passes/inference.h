#pragma once

#include "framework/graph/model.h"

namespace ndtrain {

// The graph that is run for `model` wherever it infers, whoever runs it: bound, optimised, in the
// precision that the model declares. `view` is applied to the bound graph first (with_plain_logits,
// say). Throws Error like bind().
Graph inference_graph(const Model& model, int64_t batch, Graph (*view)(const Graph&) = nullptr);

}  // namespace ndtrain
