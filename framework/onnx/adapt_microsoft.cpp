#include "framework/onnx/adapt_microsoft.h"

namespace ndtrain {
namespace {

template <const char* Op>
void same(Adaptation& a) {
  become_onnx(a, Op);
}
constexpr char kGelu[] = "Gelu", kQuantize[] = "QuantizeLinear", kDequantize[] = "DequantizeLinear";

}  // namespace

void become_onnx(Adaptation& a, const char* op) {
  a.node.domain.clear();
  a.node.op = op;
  a.node.opset = kMaxOpset;
}

std::string channels_second(Adaptation& a, const std::string& x) {
  const int rank = a.type(x).shape.rank();
  Ints perm = {0, rank - 1};
  for (int d = 1; d < rank - 1; ++d) perm.push_back(d);
  return a.before("Transpose", {x}, {{"perm", perm}});
}

void channels_last_again(Adaptation& a, int rank) {
  Ints perm = {0};
  for (int d = 2; d < rank; ++d) perm.push_back(d);
  perm.push_back(1);
  a.after(0, "Transpose", {}, {{"perm", perm}});
}

std::span<const AdaptRule> microsoft_rules() {
  static const std::vector<AdaptRule> rules = {
      {{"Gelu"}, 1, 1, same<kGelu>},
      {{"QuantizeLinear"}, 1, 1, same<kQuantize>},
      {{"DequantizeLinear"}, 1, 1, same<kDequantize>},
      {{"FusedConv"}, 1, 1, adapt_fused_conv},
      {{"NhwcConv", "NhwcFusedConv"}, 1, 1, adapt_nhwc_conv},
      {{"FusedGemm"}, 1, 1, adapt_fused_gemm},
      {{"FusedMatMul", "TransposeMatMul"}, 1, 1, adapt_fused_matmul},
      {{"BiasGelu"}, 1, 1, adapt_bias_gelu},
      {{"FastGelu"}, 1, 1, adapt_fast_gelu},
      {{"QuickGelu"}, 1, 1, adapt_quick_gelu},
      {{"SkipLayerNormalization"}, 1, 1, adapt_skip_layer_norm},
      {{"SkipSimplifiedLayerNormalization"}, 1, 1, adapt_skip_rms_norm},
      {{"QLinearAdd", "QLinearMul"}, 1, 1, adapt_qlinear_binary},
      {{"QLinearSigmoid", "QLinearLeakyRelu"}, 1, 1, adapt_qlinear_unary},
      {{"QLinearSoftmax"}, 1, 1, adapt_qlinear_softmax},
      {{"QLinearGlobalAveragePool", "QLinearAveragePool"}, 1, 1, adapt_qlinear_pool},
      {{"QLinearConcat"}, 1, 1, adapt_qlinear_concat},
      {{"QLinearWhere"}, 1, 1, adapt_qlinear_where},
      {{"QLinearReduceMean"}, 1, 1, adapt_qlinear_mean},
      {{"QLinearConv"}, 1, 1, adapt_qlinear_conv},
      {{"QGemm"}, 1, 1, adapt_q_gemm},
      {{"MatMulIntegerToFloat"}, 1, 1, adapt_integer_matmul},
      {{"DynamicQuantizeMatMul"}, 1, 1, adapt_dynamic_matmul},
      {{"NhwcMaxPool"}, 1, 1, adapt_nhwc_max_pool},
      {{"Attention"}, 1, 1, adapt_packed_attention},
      {{"QAttention"}, 1, 1, adapt_quantized_attention},
      {{"MultiHeadAttention"}, 1, 1, adapt_multi_head_attention},
  };
  return rules;
}

}  // namespace ndtrain
