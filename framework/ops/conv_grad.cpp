// ConvGradInput: dx[n,c,i] = sum of dy[n,m,o] * w[m,c,k] over all (m, o, k) that read x[n,c,i].
// ConvGradWeight: dw[m,c,k] = sum of dy[n,m,o] * x[n,c,i] over all (n, o, i) that meet tap k.
#include "framework/ops/common.h"
#include "framework/ops/conv.h"

namespace ndtrain {
namespace {

using Kind = AttrSpec::Kind;

void check_dy(const Shape& dy, const ConvShape& s) {
  if (dy != s.output()) {
    throw Error("gradient ", dy, " does not have the shape of the output ", s.output());
  }
}

// in: dy, w.
ConvShape input_shape(const Attrs& a, std::span<const TensorType> in) {
  return conv_shape(a, Shape(a.ints("input_shape")), in[1].shape);
}

void complete_input(Attrs& a, std::span<const TensorType> in) {
  const Shape& w = in[1].shape;
  if (w.rank() < 3) throw Error("weight ", w, " has no spatial dims (expected [M, C/group, …])");
  if (!a.has("input_shape")) throw Error("input_shape is missing");
  complete_window(a, Shape(a.ints("input_shape")), Ints(w.dims().begin() + 2, w.dims().end()));
}

void infer_input(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  require_same_dtype(c, 0, 1);
  check_dy(c.shape(0), input_shape(c.attrs, c.in));
  c.out.push_back({c.in[0].dtype, Shape(c.attrs.ints("input_shape"))});
}

void input_reference(const ReferenceContext& c) {
  for_each_product(input_shape(c.attrs, c.in_types), [&](int64_t y, int64_t x, int64_t w) {
    c.out[0][x] += c.in[0][y] * c.in[1][w];
  });
}

int64_t input_terms(const Attrs& a, std::span<const TensorType> in) {
  return input_shape(a, in).input_terms();
}

// dx is linear in both, and met as an output where a ConvTranspose is trained.
std::vector<ValueId> input_gradient(GradientContext& c) {
  Attrs attrs = c.node.attrs;
  attrs.erase("input_shape");
  const ValueId d = c.dy[0];
  return {c.wanted[0] ? c.g.add1("Conv", {d, c.x(1)}, attrs) : kNone,
          c.wanted[1] ? c.g.add1("ConvGradWeight", {d, c.x(0)}, attrs) : kNone};
}

// in: x, dy.
Shape weight_shape(const Attrs& a, std::span<const TensorType> in) {
  const Shape &x = in[0].shape, &dy = in[1].shape;
  const int64_t groups = a.i("group");
  if (dy.rank() != x.rank()) throw Error("gradient ", dy, " does not have the rank of ", x);
  if (groups < 1 || x[1] % groups != 0) {
    throw Error("group ", groups, " does not divide the channels of input ", x);
  }
  return shape_of_planes(dy[1], x[1] / groups, a.ints("kernel_shape"));
}

void complete_weight(Attrs& a, std::span<const TensorType> in) { complete_window(a, in[0].shape); }

void infer_weight(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  require_same_dtype(c, 0, 1);
  const Shape w = weight_shape(c.attrs, c.in);
  check_dy(c.shape(1), conv_shape(c.attrs, c.shape(0), w));
  c.out.push_back({c.in[0].dtype, w});
}

void weight_reference(const ReferenceContext& c) {
  const ConvShape s = conv_shape(c.attrs, c.shape(0), c.out_shape());
  for_each_product(
      s, [&](int64_t y, int64_t x, int64_t w) { c.out[0][w] += c.in[1][y] * c.in[0][x]; });
}

int64_t weight_terms(const Attrs& a, std::span<const TensorType> in) {
  return conv_shape(a, in[0].shape, weight_shape(a, in)).weight_terms();
}

struct Case {
  Shape x, w, y;
  Attrs attrs;
};

std::vector<Case> cases() {
  return {
      {{1, 3, 5, 5}, {4, 3, 3, 3}, {1, 4, 3, 3}, {}},
      {{3, 2, 6, 7}, {4, 2, 3, 3}, {3, 4, 6, 7}, {{"pads", Ints{1, 1, 1, 1}}}},
      {{2, 8, 5, 5}, {6, 8, 1, 1}, {2, 6, 5, 5}, {}},
      {{2, 8, 5, 5}, {6, 8, 1, 1}, {2, 6, 3, 3}, {{"strides", Ints{2, 2}}}},
      {{1, 4, 7, 6}, {6, 2, 3, 2}, {1, 6, 3, 5}, {{"group", 2}, {"strides", Ints{2, 1}}}},
      {{2, 5, 6, 6}, {5, 1, 3, 3}, {2, 5, 6, 6}, {{"group", 5}, {"pads", Ints{1, 1, 1, 1}}}},
      {{1, 2, 9, 9},
       {3, 2, 3, 3},
       {1, 3, 8, 6},
       {{"dilations", Ints{2, 3}}, {"pads", Ints{2, 3, 1, 0}}}},
      // The last row and column of x are not read.
      {{2, 2, 6, 6}, {3, 2, 3, 3}, {2, 3, 2, 2}, {{"strides", Ints{2, 2}}}},
      {{2, 3, 10}, {4, 3, 3}, {2, 4, 6}, {{"pads", Ints{1, 2}}, {"strides", Ints{2}}}},
      {{1, 2, 4, 5, 3}, {4, 2, 2, 3, 2}, {1, 4, 3, 3, 2}, {}},
  };
}

std::vector<Example> input_examples() {
  std::vector<Example> examples;
  for (Case& c : cases()) {
    c.attrs.set("input_shape", c.x.dims());
    examples.push_back({.inputs = {c.y, c.w}, .attrs = c.attrs});
  }
  return examples;
}

std::vector<Example> weight_examples() {
  std::vector<Example> examples;
  for (Case& c : cases()) {
    c.attrs.set("kernel_shape", Ints(c.w.dims().begin() + 2, c.w.dims().end()));
    examples.push_back({.inputs = {c.x, c.y}, .attrs = c.attrs});
  }
  return examples;
}

}  // namespace

std::vector<OpDef> conv_grad_ops() {
  return {
      {.name = "ConvGradInput",
       .facts = {.kind = OpKind::kProduct, .rank = RankRule::kFirst},
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = conv_attrs({{"input_shape", Kind::kInts, {}, true}}),
       .complete = complete_input,
       .infer = infer_input,
       .reference = input_reference,
       .gradient = input_gradient,
       .terms = input_terms,
       .examples = input_examples()},
      {.name = "ConvGradWeight",
       .facts = {.kind = OpKind::kProduct, .rank = RankRule::kFirst},
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = conv_attrs(),
       .complete = complete_weight,
       .infer = infer_weight,
       .reference = weight_reference,
       .terms = weight_terms,
       .examples = weight_examples()},
  };
}

}  // namespace ndtrain
