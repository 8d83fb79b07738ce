// The gradient of the filters of a convolution that is computed by Winograd: as many products as
// forwards.
#pragma once

#include <memory>

#include "backends/onednn/conv_plan.h"

namespace ndtrain::onednn {

// Of a convolution `a` that can_winograd(), of images x (input 0) and gradients dy (input 1): dw
// [out, in, 3, 3]. Its bits do not depend on threads.
std::unique_ptr<Kernel> winograd_grad_weight(const AskedConv& a);

}  // namespace ndtrain::onednn
