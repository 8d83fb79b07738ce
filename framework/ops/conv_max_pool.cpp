// FusedConv without a residual, and MaxPool of what it gives. `pool_pads` reach as far as the last
// window does, so that there is no ceil_mode.
#include "framework/ops/common.h"
#include "framework/ops/conv.h"
#include "framework/ops/pool.h"

namespace ndtrain {
namespace {

using Kind = AttrSpec::Kind;

std::vector<AttrSpec> attrs() {
  std::vector<AttrSpec> all = fused_conv_attrs();
  for (const char* name : {"pool_kernel", "pool_strides", "pool_pads"}) {
    all.push_back({name, Kind::kInts});
  }
  return all;
}

Window pool_of(const Attrs& a, const Shape& conv) {
  const Ints& kernel = a.ints("pool_kernel");
  return pool_window({{"kernel_shape", kernel},
                      {"strides", a.ints("pool_strides")},
                      {"pads", a.ints("pool_pads")},
                      {"dilations", Ints(kernel.size(), 1)},
                      {"auto_pad", "NOTSET"},
                      {"ceil_mode", 0}},
                     conv);
}

void infer(InferContext& c) {
  find_op("FusedConv").infer(c);
  Shape& y = c.out[0].shape;
  y = pooled(y, pool_of(c.attrs, y));
}

void reference(const ReferenceContext& c) {
  const TensorType conv{c.out_types[0].dtype, conv_shape(c.attrs, c.shape(0), c.shape(1)).output()};
  std::vector<std::vector<double>> y(1,
                                     std::vector<double>(static_cast<size_t>(conv.shape.count())));
  find_op("FusedConv").reference({c.attrs, c.in_types, {&conv, 1}, c.in, y});
  const Window w = pool_of(c.attrs, conv.shape);
  const int64_t in = w.in_count(), out = w.out_count();
  std::ranges::fill(c.out[0], -INFINITY);
  for (int64_t p = 0; p < conv.shape.count(0, 2); ++p) {
    for_each_tap(w, [&](int64_t o, int64_t, int64_t i) {
      double& largest = c.out[0][static_cast<size_t>(p * out + o)];
      largest = std::max(largest, y[0][static_cast<size_t>(p * in + i)]);
    });
  }
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  const ConvShape s = conv_shape(a, in[0].shape, in[1].shape);
  const int64_t pooled = pool_of(a, s.output()).out_count();
  return s.terms() * s.window.out_count() / std::max<int64_t>(pooled, 1);
}

std::vector<Example> examples() {
  const Attrs three{{"activation", "Relu"},
                    {"pool_kernel", Ints{3, 3}},
                    {"pool_strides", Ints{2, 2}},
                    {"pool_pads", Ints{0, 0, 0, 0}}};
  Attrs padded = three, ceil = three, clipped = three, two = three;
  padded.set("pool_pads", Ints{1, 1, 1, 1});
  ceil.set("pool_pads", Ints{0, 0, 1, 1});
  ceil.set("pads", Ints{1, 1, 1, 1});
  clipped.set("activation", "Clip");
  clipped.set("clip_min", -0.5);
  clipped.set("clip_max", 1.0);
  two.set("activation", "");
  two.set("pool_kernel", Ints{2, 2});
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

std::vector<OpDef> conv_max_pool_ops() {
  return {{.name = "ConvMaxPool",
           .facts = {.kind = OpKind::kProduct, .rank = RankRule::kFirst, .per_image = each_image},
           .min_inputs = 2,
           .max_inputs = 3,
           .attrs = attrs(),
           .complete = complete_conv,
           .infer = infer,
           .reference = reference,
           .terms = terms,
           .optional_fusion = always,
           .examples = examples()}};
}

}  // namespace ndtrain
