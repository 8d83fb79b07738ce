// Operators of ONNX Runtime's own domain, which its optimizer and quantizer write, as ours. Source:
// docs/ContribOperators.md of ONNX Runtime. All may throw Error.
#pragma once

#include "framework/onnx/adapt.h"

namespace ndtrain {

// The node is `op` of ONNX in its newest form from now on, with the attributes that it has left.
void become_onnx(Adaptation& a, const char* op);

// Its first output goes through `activation` last. Parameters as FusedConv lists them.
void add_activation(Adaptation& a, const std::string& activation, const Floats& params);

// From N x ... x C to N x C x ..., and back behind the node.
std::string channels_second(Adaptation& a, const std::string& x);
void channels_last_again(Adaptation& a, int rank);

// adapt_fused.cpp
void adapt_fused_conv(Adaptation& a);
void adapt_nhwc_conv(Adaptation& a);
void adapt_fused_gemm(Adaptation& a);
void adapt_fused_matmul(Adaptation& a);
void adapt_bias_gelu(Adaptation& a);
void adapt_fast_gelu(Adaptation& a);
void adapt_quick_gelu(Adaptation& a);
void adapt_skip_layer_norm(Adaptation& a);
void adapt_skip_rms_norm(Adaptation& a);

// adapt_quantized.cpp: a DequantizeLinear for each input, what is computed, and a QuantizeLinear,
// which passes make kernels of bytes of where there are such.
void adapt_qlinear_binary(Adaptation& a);
void adapt_qlinear_unary(Adaptation& a);
void adapt_qlinear_softmax(Adaptation& a);
void adapt_qlinear_pool(Adaptation& a);
void adapt_qlinear_concat(Adaptation& a);
void adapt_qlinear_where(Adaptation& a);
void adapt_qlinear_mean(Adaptation& a);
void adapt_qlinear_conv(Adaptation& a);
void adapt_q_gemm(Adaptation& a);
void adapt_integer_matmul(Adaptation& a);
void adapt_dynamic_matmul(Adaptation& a);
void adapt_nhwc_max_pool(Adaptation& a);

// adapt_packed_attention.cpp: products and then ONNX's Attention.
void adapt_packed_attention(Adaptation& a);
void adapt_quantized_attention(Adaptation& a);
void adapt_multi_head_attention(Adaptation& a);

}  // namespace ndtrain
