#include "backends/onednn/ops.h"

#include <map>

namespace ndtrain::onednn {

const Op* find_op(std::string_view name) {
  static const std::map<std::string_view, Op> table = {
      {"Add", {prepare_elementwise, prefer_elementwise}},
      {"AveragePool", {prepare_pool, prefer_pool}},
      {"BatchNormalization", {prepare_batch_norm, prefer_batch_norm}},
      {"BatchNormalizationGrad", {prepare_batch_norm_grad, prefer_batch_norm}},
      {"Cast", {prepare_quantize, prefer_quantize}},
      {"Clip", {prepare_elementwise, prefer_elementwise}},
      {"Concat", {prepare_concat, prefer_concat}},
      {"Conv", {prepare_conv, prefer_conv}},
      {"ConvElementwise", {prepare_conv, prefer_conv}},
      {"ConvGradInput", {prepare_conv_grad_input, prefer_conv_grad_input}},
      {"ConvGradWeight", {prepare_conv_grad_weight, prefer_conv_grad_weight}},
      {"ConvMaxPool", {prepare_conv_pool, prefer_conv_pool}},
      {"DequantizeLinear", {prepare_quantize, prefer_quantize}},
      {"Elu", {prepare_elementwise, prefer_elementwise}},
      {"FusedConv", {prepare_conv, prefer_conv}},
      {"FusedElementwise", {prepare_elementwise, prefer_elementwise}},
      {"FusedMatMul", {prepare_matmul, prefer_matmul}},
      {"FusedQLinearConv", {prepare_conv_int8, prefer_conv_int8}},
      {"Gelu", {prepare_elementwise, prefer_elementwise}},
      {"Gemm", {prepare_matmul, prefer_matmul}},
      {"GlobalAveragePool", {prepare_pool, prefer_pool}},
      {"HardSwish", {prepare_elementwise, prefer_elementwise}},
      {"LayerNormalization", {prepare_layer_norm, prefer_norm}},
      {"LeakyRelu", {prepare_elementwise, prefer_elementwise}},
      {"MatMul", {prepare_matmul, prefer_matmul}},
      {"MaxPool", {prepare_pool, prefer_pool}},
      {"Mul", {prepare_elementwise, prefer_elementwise}},
      {"QuantizeLinear", {prepare_quantize, prefer_quantize}},
      {"Relu", {prepare_elementwise, prefer_elementwise}},
      {"ReluGrad", {prepare_elementwise, prefer_elementwise}},
      {"Reorder", {prepare_reorder, nullptr}},
      {"Sigmoid", {prepare_elementwise, prefer_elementwise}},
      {"Softmax", {prepare_softmax, prefer_norm}},
      {"Tanh", {prepare_elementwise, prefer_elementwise}},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace ndtrain::onednn
