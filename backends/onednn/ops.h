// The ops of this plugin.
#pragma once

#include <string_view>

#include "backends/onednn/kernel.h"

namespace ndtrain::onednn {

const Op* find_op(std::string_view name);  // null: not here

std::unique_ptr<Kernel> prepare_batch_norm(const ndt_device& device, const Node& node);
std::unique_ptr<Kernel> prepare_batch_norm_grad(const ndt_device& device, const Node& node);
void prefer_batch_norm(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
std::unique_ptr<Kernel> prepare_channel_affine(const ndt_device& device, const Node& node);
void prefer_channel_affine(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
std::unique_ptr<Kernel> prepare_concat(const ndt_device& device, const Node& node);
void prefer_concat(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
std::unique_ptr<Kernel> prepare_elementwise(const ndt_device& device, const Node& node);
void prefer_elementwise(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
std::unique_ptr<Kernel> prepare_conv(const ndt_device& device, const Node& node);
void prefer_conv(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
std::unique_ptr<Kernel> prepare_conv_grad_input(const ndt_device& device, const Node& node);
void prefer_conv_grad_input(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
std::unique_ptr<Kernel> prepare_conv_grad_weight(const ndt_device& device, const Node& node);
void prefer_conv_grad_weight(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
std::unique_ptr<Kernel> prepare_conv_pool(const ndt_device& device, const Node& node);
void prefer_conv_pool(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
std::unique_ptr<Kernel> prepare_conv_int8(const ndt_device& device, const Node& node);
void prefer_conv_int8(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
std::unique_ptr<Kernel> prepare_matmul(const ndt_device& device, const Node& node);
void prefer_matmul(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
std::unique_ptr<Kernel> prepare_layer_norm(const ndt_device& device, const Node& node);
std::unique_ptr<Kernel> prepare_softmax(const ndt_device& device, const Node& node);
void prefer_norm(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
std::unique_ptr<Kernel> prepare_pool(const ndt_device& device, const Node& node);
void prefer_pool(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
std::unique_ptr<Kernel> prepare_quantize(const ndt_device& device, const Node& node);
void prefer_quantize(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
std::unique_ptr<Kernel> prepare_reorder(const ndt_device& device, const Node& node);

}  // namespace ndtrain::onednn
