// ConvElementwise: FusedConv, and behind its activation a function of one element, which is written
// as a FusedElementwise of one input is (`steps`); what a pass makes of a convolution and a
// function that FusedConv does not have, for devices that compute both as one kernel.
#include "framework/ops/common.h"
#include "framework/ops/conv.h"

namespace ndtrain {
namespace {

std::vector<AttrSpec> attrs() {
  std::vector<AttrSpec> all = fused_conv_attrs();
  all.push_back({.name = "steps", .kind = AttrSpec::Kind::kString, .required = true});
  return all;
}

void infer(InferContext& c) {
  find_op("FusedConv").infer(c);
  const TensorType y = c.out[0];
  const std::vector<Tensor> known(1);
  std::vector<TensorType> out;
  InferContext function{c.attrs, {&y, 1}, known, 1, out, c.out_known};
  find_op("FusedElementwise").infer(function);
}

void reference(const ReferenceContext& c) {
  find_op("FusedConv").reference(c);
  const std::vector<std::vector<double>> x = {c.out[0]};
  find_op("FusedElementwise").reference({c.attrs, c.out_types, c.out_types, x, c.out});
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  return conv_shape(a, in[0].shape, in[1].shape).terms();
}

std::vector<Example> examples() {
  const Attrs swish{{"steps", "Sigmoid x0; Mul x0 y0"}}, hard{{"steps", "HardSwish x0"}};
  Attrs padded = swish, depthwise = hard, clipped = swish;
  padded.set("pads", Ints{1, 1, 1, 1});
  depthwise.set("group", 16);
  clipped.set("activation", "Clip");
  clipped.set("clip_min", -0.5);
  clipped.set("clip_max", 1.0);
  const DType bf16 = DType::kBF16;
  return {
      {{{2, 16, 6, 7}, {32, 16, 3, 3}, {32}}, padded},
      {{{1, 16, 5, 4}, {24, 16, 1, 1}, {24}, {1, 24, 5, 4}}, swish},
      {{{3, 3, 9, 9}, {16, 3, 3, 3}, {16}}, hard},
      {{{2, 16, 6, 6}, {16, 1, 3, 3}, {16}}, depthwise},
      {{{2, 16, 5, 5}, {8, 16, 1, 1}}, clipped},
      {{{2, 16, 5, 5}, {32, 16, 1, 1}, {32}}, {{"steps", "Sigmoid x0"}}},
      {{{2, 16, 5, 5}, {32, 16, 1, 1}, {32}}, {{"steps", "Tanh x0"}}},
      {{{2, 16, 5, 5}, {32, 16, 1, 1}, {32}}, {{"steps", "Gelu x0 approximate=none"}}},
      {{{bf16, {2, 16, 9, 7}}, {bf16, {32, 16, 1, 1}}, {32}}, swish},
  };
}

}  // namespace

std::vector<OpDef> conv_elementwise_ops() {
  return {{.name = "ConvElementwise",
           .facts = {.kind = OpKind::kProduct,
                     .rank = RankRule::kFirst,
                     .residual = 3,
                     .per_image = each_image},
           .min_inputs = 2,
           .max_inputs = 4,
           .attrs = attrs(),
           .complete = complete_conv,
           .infer = infer,
           .reference = reference,
           .terms = terms,
           .optional_fusion = always,
           .examples = examples()}};
}

}  // namespace ndtrain
