// Numbers that are numbers: neither NaN nor infinite.
#pragma once

#include <cstddef>
#include <span>

#include "framework/core/dtype.h"
#include "framework/core/tensor.h"

namespace ndtrain {

// Whether all `values` of this type are finite; integers and bools are. They need not be aligned.
bool all_finite(DType type, std::span<const std::byte> values);
bool all_finite(const Tensor& t);

}  // namespace ndtrain
