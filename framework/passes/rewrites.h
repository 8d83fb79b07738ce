// Every rewrite there is, each in the source of its family. The order in which they are applied is
// that of passes.cpp.
#pragma once

#include "framework/passes/rewrite.h"

namespace ndtrain {

// What every backend computes.
// Gelu, HardSwish, LayerNormalization and GlobalAveragePool that are spelt out in other ops.
extern const Rewrite kFunctions;
// Conv, then an optional Add of a residual, then an optional Relu or Clip: one FusedConv.
extern const Rewrite kConvolutions;
// DequantizeLinear, then Conv or FusedConv, then QuantizeLinear, all with constant scales: one
// FusedQLinearConv. Ops that only move or choose numbers, between equal scales: the op on bytes.
// Products are scaled once instead of twice, so that a result may be off by one step.
extern const Rewrite kQuantized;

// What a device is asked about first.
// FusedQLinearConv as it was written down, with weights in f32: for a device that takes none.
extern const Rewrite kConvolutionsAsNumbers;
// MatMul, Softmax, MatMul: one FusedAttention. First where Transposes that bring heads before rows
// and back go along.
extern const Rewrite kAttentionOfRows, kAttention;
// The same, of which the gradient needs no scores: with a second output, and no mask that is
// learned.
extern const Rewrite kTrainedAttentionOfRows, kTrainedAttention;
// A function of one number, or x * sigmoid(x), from bytes to bytes: one ByteTable.
extern const Rewrite kByteTables;
// An average of windows, a product of maps and factors, or a batch normalisation of joined maps,
// from bytes to bytes: FusedQLinearAveragePool, FusedQLinearMul, FusedQLinearBatchNorm.
extern const Rewrite kQuantizedMaps;
// A product of rows of bytes with a constant matrix of bytes, all scales constant, its bias, its
// activation and a QuantizeLinear: one FusedQLinearMatMul. Then, where it was refused, the matrix
// as f32.
extern const Rewrite kQuantizedProducts;
extern const Rewrite kByteMatrices;
// A product of rows, its bias and its activation: one FusedMatMul.
extern const Rewrite kProducts;
// A convolution and the MaxPool that alone reads it: one FusedConv. Of several that a Concat joins
// by channels: they are joined once they are pooled, which gives the same numbers.
extern const Rewrite kPooledConvolutions;
// A convolution and the function of its every element that alone reads it, one operand's that is no
// clamp or x * sigmoid(x): one FusedConv.
extern const Rewrite kConvFunctions;
// Elementwise ops in a row: one FusedElementwise.
extern const Rewrite kElementwise;

// The stored matrices of such products, which are to stay bytes until a device was asked.
std::vector<ValueId> matrices_of_bytes(const Graph& g);

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
