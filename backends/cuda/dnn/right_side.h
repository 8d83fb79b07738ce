// Input 1 of a product: weights, mostly.
#pragma once

#include <memory>

#include "backends/cuda/dnn/product.h"
#include "backends/cuda/memory.h"
#include "backends/plugin/node.h"

namespace ndtrain::cuda {

inline constexpr int kRight = 1;

// One copy of it for all plans, when it is constant; else null.
std::shared_ptr<const Memory> upload_right(const ndt_device& device, const plugin::Node& node);

// The rows for which an algorithm is chosen. Rows of photos meet weights that are constant; a
// product of two changing sides has as many rows as it always has, and so has a training step.
// `rows_of_an_image` 0: its rows are not those of images.
int64_t usual_rows(const plugin::Node& node, const ProductShape& s, int64_t rows_of_an_image);

}  // namespace ndtrain::cuda
