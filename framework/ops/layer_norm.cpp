// LayerNormalization: y = (x - mean) / sqrt(var + epsilon) * scale + bias, the statistics over the
// dims from `axis` on (population variance); scale and bias broadcast to x (ONNX opset 17).
// LayerNormalizationGrad: with n values per row, r = 1 / sqrt(var + epsilon), z = (x - mean) * r
// and h = dy * scale: dx = r * (h - mean(h) - z * mean(h * z)), dscale = sum dy * z, dbias = sum
// dy.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

using Kind = AttrSpec::Kind;

struct Rows {
  int axis;
  int64_t count, length;
  Shape statistics;  // x with the normalised dims 1
};

Rows rows(const Attrs& a, const Shape& x) {
  const int axis = x.axis(a.i("axis"), "axis");
  std::vector<int64_t> dims = x.dims();
  std::fill(dims.begin() + axis, dims.end(), 1);
  return {axis, x.count(0, axis), x.count(axis, x.rank()), Shape(std::move(dims))};
}

struct Statistics {
  double mean = 0, inv_deviation = 0;
};

Statistics statistics(const double* x, int64_t n, double epsilon) {
  Statistics s;
  double var = 0;
  for (int64_t i = 0; i < n; ++i) s.mean += x[i] / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) var += (x[i] - s.mean) * (x[i] - s.mean) / static_cast<double>(n);
  s.inv_deviation = 1 / std::sqrt(var + epsilon);
  return s;
}

void check_affine(const InferContext& c, const Shape& x, size_t i) {
  require(c, i, is_float, "a float dtype");
  if (c.has(i) &&
      (c.shape(i).rank() > x.rank() || broadcast(x, c.shape(i), "scale or bias") != x)) {
    throw Error("input ", i, " ", c.shape(i), " does not broadcast to x ", x);
  }
}

void infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  const Rows r = rows(c.attrs, c.shape(0));
  if (r.length == 0)
    throw Error("input ", c.shape(0), " has nothing to normalise from axis ", r.axis);
  check_affine(c, c.shape(0), 1);
  check_affine(c, c.shape(0), 2);
  require_same_dtype(c, 1, 2);
  const DType stash = static_cast<DType>(c.attrs.i("stash_type"));
  if (stash != DType::kF32 && stash != DType::kBF16) {
    throw Error("stash_type is ", c.attrs.i("stash_type"), ", expected f32 or bf16");
  }
  c.out.push_back(c.in[0]);
  for (int k = 1; k < c.n_outputs; ++k) c.out.push_back({stash, r.statistics});
}

void reference(const ReferenceContext& c) {
  const Rows r = rows(c.attrs, c.shape(0));
  std::vector<double>& y = c.out[0];
  for (int64_t row = 0; row < r.count; ++row) {
    const double* x = c.in[0].data() + row * r.length;
    const Statistics s = statistics(x, r.length, c.attrs.f("epsilon"));
    for (int64_t i = 0; i < r.length; ++i)
      y[row * r.length + i] = (x[i] - s.mean) * s.inv_deviation;
    if (c.out.size() > 1) c.out[1][row] = s.mean;
    if (c.out.size() > 2) c.out[2][row] = s.inv_deviation;
  }
  const Shape shapes[] = {c.shape(1), c.has(2) ? c.shape(2) : Shape{}};
  for_each_broadcast(c.shape(0), shapes, [&](int64_t i, std::span<const int64_t> at) {
    y[i] = y[i] * c.in[1][at[0]] + (c.has(2) ? c.in[2][at[1]] : 0);
  });
}

std::vector<ValueId> gradient(GradientContext& c) {
  for (size_t k = 1; k < c.dy.size(); ++k) {
    if (c.dy[k] != kNone)
      throw Error("there is no gradient through its mean and deviation outputs");
  }
  std::vector<ValueId> grads(c.node.inputs.size(), kNone);
  if (c.dy[0] == kNone) return grads;
  const bool bias = c.has(2) && c.wanted[2];
  const bool same = bias && c.g.type(c.x(1)) == c.g.type(c.x(2));
  if (c.wanted[0] || c.wanted[1] || same) {
    const std::vector<ValueId> d =
        c.g.add("LayerNormalizationGrad", {c.dy[0], c.x(0), c.x(1)},
                {{"axis", c.node.attrs.i("axis")}, {"epsilon", c.node.attrs.f("epsilon")}}, 3);
    if (c.wanted[0]) grads[0] = d[0];
    if (c.wanted[1]) grads[1] = d[1];
    if (same) grads[2] = d[2];
  }
  if (bias && !same) {
    const TensorType t = c.g.type(c.x(2));
    grads[2] = unbroadcast(c.g, cast(c.g, c.dy[0], t.dtype), t.shape);
  }
  return grads;
}

// in: dy, x, scale.
void infer_grad(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  if (c.in[0] != c.in[1]) throw Error("inputs 0 and 1 differ: ", c.in[0], " and ", c.in[1]);
  if (rows(c.attrs, c.shape(1)).length == 0) throw Error("input ", c.shape(1), " is empty");
  check_affine(c, c.shape(1), 2);
  c.out.push_back(c.in[1]);
  c.out.insert(c.out.end(), 2, c.in[2]);
}

void grad_reference(const ReferenceContext& c) {
  const Rows r = rows(c.attrs, c.shape(1));
  const std::vector<double>&dy = c.in[0], &x = c.in[1], &scale = c.in[2];
  std::vector<double> z(x.size()), h(x.size()), inv_deviation(r.count);
  for (int64_t row = 0; row < r.count; ++row) {
    const int64_t from = row * r.length;
    const Statistics s = statistics(x.data() + from, r.length, c.attrs.f("epsilon"));
    inv_deviation[row] = s.inv_deviation;
    for (int64_t i = from; i < from + r.length; ++i) z[i] = (x[i] - s.mean) * s.inv_deviation;
  }
  const Shape shapes[] = {c.shape(2)};
  for_each_broadcast(c.shape(1), shapes, [&](int64_t i, std::span<const int64_t> at) {
    h[i] = dy[i] * scale[at[0]];
    c.out[1][at[0]] += dy[i] * z[i];
    c.out[2][at[0]] += dy[i];
  });
  const double n = static_cast<double>(r.length);
  for (int64_t row = 0; row < r.count; ++row) {
    const int64_t from = row * r.length;
    double mean_h = 0, mean_hz = 0;
    for (int64_t i = from; i < from + r.length; ++i) mean_h += h[i] / n, mean_hz += h[i] * z[i] / n;
    for (int64_t i = from; i < from + r.length; ++i) {
      c.out[0][i] = inv_deviation[row] * (h[i] - mean_h - z[i] * mean_hz);
    }
  }
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  return rows(a, in[0].shape).length;
}

int64_t grad_terms(const Attrs& a, std::span<const TensorType> in) {
  const Rows r = rows(a, in[1].shape);
  return std::max(r.count, r.length);
}

std::vector<Example> examples() {
  const DType d = DType::kF64, half = DType::kF16;
  return {
      {{{3, 7}, {7}, {7}}},
      {{{2, 5, 64}, {64}, {64}}, {{"epsilon", 1e-2}}},
      {{{2, 5, 8}, {8}}},
      {{{2, 3, 4, 5}, {4, 5}, {4, 5}}, {{"axis", int64_t{-2}}}},
      {{{2, 3, 4}, {2, 3, 4}, {2, 3, 4}}, {{"axis", 0}}},
      {{{2, 3, 4}, {3, 4}, {4}}, {{"axis", 1}}},
      {{{2, 3, 4}, {3, 1}, ExampleInput(Shape{})}, {{"axis", 1}}},
      {{{1, 6}, {6}, {6}}},
      {.inputs = {{2, 3, 8}, {8}, {8}}, .outputs = 3, .check_gradient = false},
      {{{d, {3, 7}}, {d, {7}}, {d, {7}}}},
      {.inputs = {{half, {3, 8}}, {half, {8}}, {half, {8}}}, .check_gradient = false},
      {.inputs = {{DType::kBF16, {3, 40}}, {40}, {40}}, .check_gradient = false},
  };
}

std::vector<Example> grad_examples() {
  const DType d = DType::kF64;
  return {
      {{{3, 7}, {3, 7}, {7}}},
      {{{2, 5, 64}, {2, 5, 64}, {64}}, {{"epsilon", 1e-2}}},
      {{{2, 3, 4, 5}, {2, 3, 4, 5}, {4, 5}}, {{"axis", int64_t{-2}}}},
      {{{2, 3, 4}, {2, 3, 4}, {2, 3, 4}}, {{"axis", 0}}},
      {{{2, 3, 4}, {2, 3, 4}, {3, 1}}, {{"axis", 1}}},
      {{{d, {3, 7}}, {d, {3, 7}}, {d, {7}}}},
  };
}

}  // namespace

std::vector<OpDef> layer_norm_ops() {
  const AttrSpec axis = {"axis", Kind::kInt, Attr(int64_t{-1})};
  const AttrSpec epsilon = {"epsilon", Kind::kFloat, Attr(1e-5)};
  return {
      {.name = "LayerNormalization",
       .facts = {.onnx = 17,
                 .rounding = Rounding::kRounds,
                 .wide_inputs = 0b110,
                 .rank = RankRule::kFirst,
                 .per_image = each_image_off_axis_0},
       .min_inputs = 2,
       .max_inputs = 3,
       .max_outputs = 3,
       .attrs = {axis, epsilon, {"stash_type", Kind::kInt, Attr(int64_t{1})}},
       .infer = infer,
       .reference = reference,
       .gradient = gradient,
       .terms = terms,
       .examples = examples()},
      {.name = "LayerNormalizationGrad",
       .min_inputs = 3,
       .max_inputs = 3,
       .min_outputs = 3,
       .max_outputs = 3,
       .attrs = {axis, epsilon},
       .infer = infer_grad,
       .reference = grad_reference,
       .terms = grad_terms,
       .examples = grad_examples()},
  };
}

}  // namespace ndtrain
