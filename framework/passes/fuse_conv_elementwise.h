// A convolution and the function of its every element that alone reads it, as one ConvElementwise,
// where a device has that as a kernel: what lies between them need not go to memory and back.
#pragma once

#include <span>

#include "framework/passes/offer.h"

namespace ndtrain {

// The functions are HardSwish, Sigmoid, Tanh, Gelu, LeakyRelu, Elu and x * sigmoid(x). What is
// refused stays as it was. All of `keep` stay values of the result, and may change from run to run.
Rewritten fuse_conv_elementwise(const Graph& g, std::span<const ValueId> keep,
                                const Offer& accepts);

}  // namespace ndtrain
