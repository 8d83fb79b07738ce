#include "backends/onednn/ops.h"

#include <map>

namespace ndtrain::onednn {

const Op* find_op(std::string_view name) {
  static const std::map<std::string_view, Op> table = {
      {"AveragePool", {prepare_pool, prefer_pool}},
      {"Cast", {prepare_quantize, prefer_quantize}},
      {"Conv", {prepare_conv, prefer_conv}},
      {"DequantizeLinear", {prepare_quantize, prefer_quantize}},
      {"FusedConv", {prepare_conv, prefer_conv}},
      {"FusedQLinearConv", {prepare_conv_int8, prefer_conv_int8}},
      {"GlobalAveragePool", {prepare_pool, prefer_pool}},
      {"MaxPool", {prepare_pool, prefer_pool}},
      {"QuantizeLinear", {prepare_quantize, prefer_quantize}},
      {"Reorder", {prepare_reorder, nullptr}},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace ndtrain::onednn
