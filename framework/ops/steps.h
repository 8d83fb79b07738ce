// Elementwise steps behind a product: the attribute `steps` of a fused op, of which x0 is the
// product's result (framework/graph/elementwise_steps.h). Empty: none.
#pragma once

#include "framework/graph/op.h"

namespace ndtrain {

inline AttrSpec steps_attr() { return {"steps", AttrSpec::Kind::kString, Attr("")}; }

// Throws Error for what are no steps of one input.
void check_steps(const Attrs& attrs, const TensorType& y);
void apply_steps(const Attrs& attrs, const TensorType& y, std::vector<double>& values);

// Whether they are none, or one that holds its input within limits: what every backend has behind
// a convolution.
bool is_clamp(const Attrs& attrs);

// Of steps that are a clamp; infinite where there is no limit. Throws Error for others.
struct Limits {
  double low, high;
};
Limits limits_of(const Attrs& attrs);

}  // namespace ndtrain
