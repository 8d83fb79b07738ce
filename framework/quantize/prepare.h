#pragma once

#include <string>
#include <vector>

#include "framework/graph/model.h"

namespace ndtrain {

// The same function with batch normalisation folded into the convolutions before it, transposed
// weights as such, and without nodes that do nothing at inference, as optimize_for_inference() does
// for graphs: what is left has values worth a scale. Only what `until` is computed from changes;
// these values and the outputs of `model` stay.
Model prepared_for_quantization(const Model& model, const std::vector<std::string>& until);

}  // namespace ndtrain
