// Floats as they travel: f32, or rounded once to bf16 or f16.
#pragma once

#include <cstddef>
#include <span>

#include "framework/core/dtype.h"

namespace ndtrain {

// Throws Error unless floats may travel as such.
void check_wire_type(DType type);
// `to` has room for as many values of `type`.
void to_wire(std::span<const float> from, DType type, void* to);
// The values of `type` from number `first` of `from` on.
void from_wire(const void* from, DType type, size_t first, std::span<float> to);
// What the receivers will have.
void round_to_wire(std::span<float> values, DType type);

}  // namespace ndtrain
