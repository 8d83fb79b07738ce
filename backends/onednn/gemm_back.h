// Gemm of a transposed left side: what the gradient of a product's weights is.
#pragma once

#include <memory>

#include "backends/onednn/kernel.h"

namespace ndtrain::onednn {

bool is_gemm_back(const Node& node);
std::unique_ptr<Kernel> prepare_gemm_back(const Node& node);

}  // namespace ndtrain::onednn
