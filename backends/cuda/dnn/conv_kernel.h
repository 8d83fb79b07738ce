// Kernels of convolutions between any of the plugin's layouts.
#pragma once

#include <functional>

#include "backends/cuda/dnn/conv_shape.h"
#include "backends/cuda/dnn/staged.h"

namespace ndtrain::cuda {

// Weights at input `i`: constant ones are laid out on the device once, others by every run.
Staged::Port weights_port(const ndt_device& device, const Node& node, int i,
                          const ndt_tensor_type& w, bool last);
uint64_t packed_bits(const Node& node, int i);  // of ndt_prepared, for weights_port()

Numerics numerics_of(const ndt_device& device, const AskedConv& a);

// What `attempt` answers for the first layout (true: channels-last) that cuDNN has an engine for.
// Throws Unsupported with the last reason.
std::unique_ptr<Kernel> first_layout(
    const AskedConv& a, const std::function<std::unique_ptr<Kernel>(bool last)>& attempt);

}  // namespace ndtrain::cuda
