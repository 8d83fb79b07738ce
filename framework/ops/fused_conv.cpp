// FusedConv: a Conv, plus a residual, then elementwise steps, then the largest of each window; what
// passes make of these. The window's attributes are MaxPool's, with `pool_` before their names;
// without them nothing is pooled. Every backend has a clamp as the one step; more, and the pool,
// are for devices that compute them before the result is written.
#include "framework/ops/common.h"
#include "framework/ops/conv.h"
#include "framework/ops/pool.h"
#include "framework/ops/steps.h"

namespace ndtrain {
namespace {

using Kind = AttrSpec::Kind;

std::vector<AttrSpec> attrs() {
  return conv_attrs({steps_attr(),
                     {"pool_kernel_shape", Kind::kInts},
                     {"pool_strides", Kind::kInts},
                     {"pool_pads", Kind::kInts},
                     {"pool_ceil_mode", Kind::kInt}});
}

bool is_pooled(const Attrs& a) { return a.has("pool_kernel_shape"); }

Window pool_of(const Attrs& a, const Shape& conv) {
  const Ints& kernel = a.ints("pool_kernel_shape");
  return pool_window({{"kernel_shape", kernel},
                      {"strides", a.ints("pool_strides")},
                      {"pads", a.ints("pool_pads")},
                      {"dilations", Ints(kernel.size(), 1)},
                      {"auto_pad", "NOTSET"},
                      {"ceil_mode", a.i("pool_ceil_mode")}},
                     conv);
}

void infer(InferContext& c) {
  find_op("Conv").infer(c);
  TensorType& y = c.out[0];
  check_residual(c, 3, y.shape);
  check_steps(c.attrs, y);
  if (is_pooled(c.attrs)) y.shape = pooled(y.shape, pool_of(c.attrs, y.shape));
}

void largest_of_windows(const Window& w, const std::vector<double>& x, std::vector<double>& y) {
  const int64_t in = w.in_count(), out = w.out_count();
  std::ranges::fill(y, -INFINITY);
  for (int64_t p = 0; p * out < static_cast<int64_t>(y.size()); ++p) {
    for_each_tap(w, [&](int64_t o, int64_t, int64_t i) {
      double& largest = y[static_cast<size_t>(p * out + o)];
      largest = std::max(largest, x[static_cast<size_t>(p * in + i)]);
    });
  }
}

void reference(const ReferenceContext& c) {
  const TensorType conv{c.out_types[0].dtype, conv_shape(c.attrs, c.shape(0), c.shape(1)).output()};
  std::vector<std::vector<double>> y = {
      std::vector<double>(static_cast<size_t>(conv.shape.count()))};
  find_op("Conv").reference({c.attrs, c.in_types, {&conv, 1}, c.in, y});
  for (size_t i = 0; c.has(3) && i < y[0].size(); ++i) y[0][i] += c.in[3][i];
  apply_steps(c.attrs, conv, y[0]);
  if (is_pooled(c.attrs)) {
    largest_of_windows(pool_of(c.attrs, conv.shape), y[0], c.out[0]);
  } else {
    c.out[0] = std::move(y[0]);
  }
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  const ConvShape s = conv_shape(a, in[0].shape, in[1].shape);
  if (!is_pooled(a)) return s.terms();
  const int64_t pooled = pool_of(a, s.output()).out_count();
  return s.terms() * s.window.out_count() / std::max<int64_t>(pooled, 1);
}

std::vector<Example> examples() {
  const DType bf16 = DType::kBF16, f16 = DType::kF16;
  const Attrs relu{{"steps", "Relu x0"}}, clip{{"steps", "Clip x0 -0.5 1"}};
  Attrs padded = relu;
  padded.set("pads", Ints{1, 1, 1, 1});
  const Attrs depthwise{{"steps", "Clip x0 0 6"}, {"group", 4}};
  return {
      {{{2, 3, 6, 6}, {5, 3, 3, 3}, {5}, {2, 5, 6, 6}}, padded},
      {{{1, 3, 6, 6}, {5, 3, 3, 3}, {5}}, padded},
      {{{1, 8, 5, 4}, {6, 8, 1, 1}, {6}, {1, 6, 5, 4}}, relu},
      {{{3, 4, 6, 6}, {4, 1, 3, 3}, {4}}, depthwise},
      {{{1, 4, 6, 6}, {3, 4, 3, 3}, ExampleInput::absent(), {1, 3, 4, 4}}, clip},
      {{{1, 2, 9}, {3, 2, 3}, {3}, {1, 3, 7}}},
      {{{bf16, {2, 8, 5, 4}}, {bf16, {6, 8, 1, 1}}, {6}, {bf16, {2, 6, 5, 4}}}, relu},
      {{{bf16, {1, 3, 6, 6}}, {bf16, {5, 3, 3, 3}}, {bf16, {5}}}, padded},
      {{{f16, {2, 8, 5, 4}}, {f16, {6, 8, 1, 1}}, {6}, {f16, {2, 6, 5, 4}}}, relu},
  };
}

std::vector<Example> examples_of_steps() {
  const Attrs swish{{"steps", "Sigmoid x0; Mul x0 y0"}}, hard{{"steps", "HardSwish x0"}};
  Attrs padded = swish, depthwise = hard;
  padded.set("pads", Ints{1, 1, 1, 1});
  depthwise.set("group", 16);
  const DType bf16 = DType::kBF16;
  return {
      {{{2, 16, 6, 7}, {32, 16, 3, 3}, {32}}, padded},
      {{{1, 16, 5, 4}, {24, 16, 1, 1}, {24}, {1, 24, 5, 4}}, swish},
      {{{3, 3, 9, 9}, {16, 3, 3, 3}, {16}}, hard},
      {{{2, 16, 6, 6}, {16, 1, 3, 3}, {16}}, depthwise},
      {{{2, 16, 5, 5}, {8, 16, 1, 1}}, {{"steps", "Clip x0 -0.5 1; Sigmoid y0; Mul y0 y1"}}},
      {{{2, 16, 5, 5}, {32, 16, 1, 1}, {32}}, {{"steps", "Sigmoid x0"}}},
      {{{2, 16, 5, 5}, {32, 16, 1, 1}, {32}}, {{"steps", "Tanh x0"}}},
      {{{2, 16, 5, 5}, {32, 16, 1, 1}, {32}}, {{"steps", "Gelu x0 approximate=none"}}},
      {{{bf16, {2, 16, 9, 7}}, {bf16, {32, 16, 1, 1}}, {32}}, swish},
  };
}

std::vector<Example> pooled_examples() {
  const Attrs three{{"steps", "Relu x0"},
                    {"pool_kernel_shape", Ints{3, 3}},
                    {"pool_strides", Ints{2, 2}},
                    {"pool_pads", Ints{0, 0, 0, 0}},
                    {"pool_ceil_mode", 0}};
  Attrs padded = three, ceil = three, clipped = three, two = three;
  padded.set("pool_pads", Ints{1, 1, 1, 1});
  ceil.set("pool_ceil_mode", 1);
  ceil.set("pads", Ints{1, 1, 1, 1});
  clipped.set("steps", "Clip x0 -0.5 1");
  two.set("steps", "");
  two.set("pool_kernel_shape", Ints{2, 2});
  two.set("strides", Ints{2, 2});
  const DType bf16 = DType::kBF16;
  return {
      {{{2, 3, 9, 9}, {16, 3, 3, 3}, {16}}, three},
      {{{3, 3, 16, 15}, {64, 3, 3, 3}, {64}}, two},
      {{{1, 16, 9, 7}, {32, 16, 1, 1}, {32}}, padded},
      {{{2, 32, 8, 8}, {48, 32, 3, 3}, {48}}, ceil},
      {{{2, 5, 7, 9}, {6, 5, 3, 3}}, clipped},
      {{{1, 3, 230, 230}, {40, 3, 7, 7}, {40}}, two},
      {{{bf16, {2, 16, 9, 7}}, {bf16, {32, 16, 1, 1}}, {32}}, padded},
  };
}

}  // namespace

std::vector<OpDef> fused_conv_ops() {
  std::vector<Example> all = examples();
  for (auto more : {examples_of_steps, pooled_examples}) {
    for (Example& e : more()) all.push_back(std::move(e));
  }
  return {{.name = "FusedConv",
           .facts = {.kind = OpKind::kProduct,
                     .rounding = Rounding::kRounds,
                     .wide_inputs = 0b100,
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
           .optional_fusion = [](const Attrs& a) { return is_pooled(a) || !is_clamp(a); },
           .examples = std::move(all)}};
}

}  // namespace ndtrain
