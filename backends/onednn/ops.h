// The ops of this plugin.
#pragma once

#include <string_view>

#include "backends/onednn/kernel.h"

namespace ndtrain::onednn {

const Op* find_op(std::string_view name);  // null: not here

// BatchNormalization with running statistics.
std::unique_ptr<Kernel> prepare_channel_affine(const ndt_device& device, const Node& node);
void prefer_channel_affine(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);

// FusedConv with a pool.
std::unique_ptr<Kernel> prepare_conv_pool(const ndt_device& device, const Node& node);
void prefer_conv_pool(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);

}  // namespace ndtrain::onednn
