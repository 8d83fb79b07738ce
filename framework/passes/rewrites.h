// Every rewrite there is. The order in which they are applied is that of passes.cpp.
#pragma once

#include "framework/passes/rewrite.h"

namespace ndtrain {

// Each stands in the source of its family: recognise.cpp, fuse_conv.cpp and so on.
std::vector<Match> find_functions(const Matcher& m);
std::vector<Match> find_convolutions(const Matcher& m);
std::vector<Match> find_quantized(const Matcher& m);
std::vector<Match> find_attention(const Matcher& m);
std::vector<Match> find_products(const Matcher& m);
std::vector<Match> find_pooled_convolutions(const Matcher& m);
std::vector<Match> find_conv_functions(const Matcher& m);
std::vector<Match> find_elementwise(const Matcher& m);

// What every backend computes.
// Gelu, HardSwish and LayerNormalization that are spelt out in elementary ops.
inline constexpr Rewrite kFunctions{"functions", find_functions};
// Conv, then an optional Add of a residual, then an optional Relu or Clip: one FusedConv.
inline constexpr Rewrite kConvolutions{"convolutions", find_convolutions};
// DequantizeLinear, then Conv or FusedConv, then QuantizeLinear, all with constant scales: one
// FusedQLinearConv. Ops that only move or choose numbers, between equal scales: the op on bytes.
// Products are scaled once instead of twice, so that a result may be off by one step.
inline constexpr Rewrite kQuantized{"quantized", find_quantized};

// What a device is asked about first.
// MatMul, Softmax, MatMul: one FusedAttention.
inline constexpr Rewrite kAttention{"attention", find_attention, Needs::kKernel};
// A product of rows, its bias and its activation: one FusedMatMul.
inline constexpr Rewrite kProducts{"products", find_products, Needs::kLayout};
// A convolution and the MaxPool that alone reads it: one FusedConv. Of several that a Concat joins
// by channels: they are joined once they are pooled, which gives the same numbers.
inline constexpr Rewrite kPooledConvolutions{"pooled convolutions", find_pooled_convolutions,
                                             Needs::kLayout};
// A convolution and the function of its every element that alone reads it, one operand's that is no
// clamp or x * sigmoid(x): one FusedConv.
inline constexpr Rewrite kConvFunctions{"functions of convolutions", find_conv_functions,
                                        Needs::kLayout};
// Elementwise ops in a row: one FusedElementwise.
inline constexpr Rewrite kElementwise{"elementwise", find_elementwise, Needs::kLayout};

// With or without a residual and an activation.
inline bool is_conv(const Matcher& m, int i) { return m.is(i, "Conv") || m.is(i, "FusedConv"); }

// Elementwise nodes in their order as steps (framework/graph/elementwise_steps.h), and what these
// read from elsewhere besides numbers.
struct Steps {
  std::vector<ValueId> inputs;
  std::string text;
};
Steps steps_of(const Matcher& m, const std::vector<int>& nodes);

}  // namespace ndtrain
