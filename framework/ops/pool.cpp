// MaxPool and AveragePool over windows of each plane of [N, C, …] (ONNX opset 22). A window that
// would start in the padding after the input is left out (ceil_mode); padding never is the maximum.
#include "framework/ops/pool.h"

#include "framework/ops/common.h"

namespace ndtrain {

using Kind = AttrSpec::Kind;

std::vector<AttrSpec> max_pool_attrs() {
  return window_attrs({{"ceil_mode", Kind::kInt, Attr(int64_t{0})},
                       {"storage_order", Kind::kInt, Attr(int64_t{0})}});
}

std::vector<AttrSpec> average_pool_attrs(std::vector<AttrSpec> more) {
  more.push_back({"ceil_mode", Kind::kInt, Attr(int64_t{0})});
  more.push_back({"count_include_pad", Kind::kInt, Attr(int64_t{0})});
  return window_attrs(std::move(more));
}

Window pool_window(const Attrs& a, const Shape& x) {
  Window w = window_of(a, x);
  for (int d = 0; d < w.rank(); ++d) {
    if (std::max(w.begin[d], w.end[d]) >= w.span(d)) {
      throw Error("padding ", w.begin[d], " and ", w.end[d], " of spatial dim ", d,
                  " must be less than the ", w.span(d), " cells that the kernel covers");
    }
  }
  return w;
}

std::vector<double> average_counts(const Attrs& a, const Window& w) {
  Window counted = w;
  if (a.flag("count_include_pad")) {
    for (int d = 0; d < w.rank(); ++d) {
      counted.in[d] += w.begin[d] + w.end[d];
      counted.begin[d] = 0;
    }
  }
  std::vector<double> counts(w.out_count(), 0.0);
  for_each_tap(counted, [&](int64_t o, int64_t, int64_t) { counts[o] += 1; });
  for (double& n : counts) n = std::max(n, 1.0);
  return counts;
}

namespace {

void complete(Attrs& a, std::span<const TensorType> in) { complete_window(a, in[0].shape); }

bool poolable(DType t) { return is_float(t) || t == DType::kI8 || t == DType::kU8; }

void infer_max(InferContext& c) {
  require(c, 0, poolable, "a float dtype, i8 or u8");
  const int64_t order = c.attrs.i("storage_order");
  if (order != 0 && order != 1) throw Error("storage_order is ", order, ", expected 0 or 1");
  const Shape y = pooled(c.shape(0), pool_window(c.attrs, c.shape(0)));
  c.out.push_back({c.in[0].dtype, y});
  if (c.n_outputs > 1) c.out.push_back({DType::kI64, y});
}

// The flat position of cell i of a plane when its first spatial dim is the innermost.
int64_t column_major(const Ints& in, int64_t i) {
  int64_t position = 0, count = 1;
  for (int64_t extent : in) count *= extent;
  for (size_t d = in.size(); d-- > 0; i /= in[d]) {
    count /= in[d];
    position += i % in[d] * count;
  }
  return position;
}

void max_reference(const ReferenceContext& c) {
  const Window w = pool_window(c.attrs, c.shape(0));
  const int64_t in = w.in_count(), out = w.out_count();
  const bool by_columns = c.attrs.flag("storage_order");
  std::fill(c.out[0].begin(), c.out[0].end(), -INFINITY);
  for (int64_t p = 0; p < c.shape(0).count(0, 2); ++p) {
    for_each_tap(w, [&](int64_t o, int64_t, int64_t i) {
      double& y = c.out[0][p * out + o];
      if (const double x = c.in[0][p * in + i]; x > y) {
        y = x;
        if (c.out.size() > 1)
          c.out[1][p * out + o] = p * in + (by_columns ? column_major(w.in, i) : i);
      }
    });
  }
}

std::vector<ValueId> max_gradient(GradientContext& c) {
  if (c.dy[0] == kNone) return {kNone};
  return {c.g.add1("MaxPoolGrad", {c.dy[0], c.x(0)}, c.node.attrs)};
}

void infer_average(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  c.out.push_back({c.in[0].dtype, pooled(c.shape(0), pool_window(c.attrs, c.shape(0)))});
}

void average_reference(const ReferenceContext& c) {
  const Window w = pool_window(c.attrs, c.shape(0));
  const std::vector<double> counts = average_counts(c.attrs, w);
  const int64_t in = w.in_count(), out = w.out_count();
  for (int64_t p = 0; p < c.shape(0).count(0, 2); ++p) {
    for_each_tap(
        w, [&](int64_t o, int64_t, int64_t i) { c.out[0][p * out + o] += c.in[0][p * in + i]; });
    for (int64_t o = 0; o < out; ++o) c.out[0][p * out + o] /= counts[o];
  }
}

std::vector<ValueId> average_gradient(GradientContext& c) {
  Attrs attrs = c.node.attrs;
  attrs.set("input_shape", c.shape(c.x(0)).dims());
  return {c.g.add1("AveragePoolGrad", {c.dy[0]}, attrs)};
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  return window_of(a, in[0].shape).taps();
}

// Attributes both pools share, and the shape they are for.
std::vector<std::pair<Shape, Attrs>> windows() {
  const Ints k2{2, 2}, k3{3, 3}, pads1{1, 1, 1, 1};
  return {
      {{1, 3, 6, 6}, {{"kernel_shape", k2}, {"strides", k2}}},
      {{3, 2, 7, 5}, {{"kernel_shape", k3}, {"strides", k2}, {"pads", pads1}}},
      {{1, 2, 7, 7}, {{"kernel_shape", k3}, {"strides", k2}, {"ceil_mode", 1}}},
      {{1, 2, 6, 6}, {{"kernel_shape", k3}, {"strides", k2}, {"ceil_mode", 1}}},
      {{2, 2, 6, 5}, {{"kernel_shape", k3}, {"strides", k2}, {"pads", pads1}, {"ceil_mode", 1}}},
      {{1, 1, 5, 5}, {{"kernel_shape", Ints{2, 3}}, {"pads", Ints{1, 0, 0, 2}}}},
      {{1, 2, 8, 7}, {{"kernel_shape", k3}, {"dilations", Ints{2, 1}}}},
      {{1, 2, 7, 7}, {{"kernel_shape", k3}, {"strides", k2}, {"auto_pad", "SAME_UPPER"}}},
      {{1, 2, 6, 7}, {{"kernel_shape", k2}, {"auto_pad", "SAME_LOWER"}}},
      {{1, 2, 6, 7}, {{"kernel_shape", k3}, {"strides", k3}, {"auto_pad", "VALID"}}},
      {{2, 3, 9}, {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{0, 1}}}},
  };
}

std::vector<Example> max_examples() {
  std::vector<Example> examples;
  for (auto& [x, attrs] : windows()) {
    examples.push_back({.inputs = {ExampleInput::no_ties(x)}, .attrs = attrs});
  }
  const Attrs cube{{"kernel_shape", Ints{2, 2, 2}}};
  const Attrs square{{"kernel_shape", Ints{2, 2}}};
  Attrs by_columns = square;
  by_columns.set("storage_order", int64_t{1});
  const ExampleInput bytes = ExampleInput::range({1, 2, 4, 4}, 0, 255, DType::kU8);
  examples.push_back(
      {.inputs = {ExampleInput::no_ties({2, 2, 5, 4})}, .attrs = square, .outputs = 2});
  examples.push_back(
      {.inputs = {ExampleInput::no_ties({2, 2, 5, 4})}, .attrs = by_columns, .outputs = 2});
  examples.push_back({.inputs = {ExampleInput::no_ties({1, 2, 3, 4, 3})}, .attrs = cube});
  examples.push_back({.inputs = {{DType::kF64, {1, 2, 4, 4}}}, .attrs = square});
  examples.push_back(
      {.inputs = {{DType::kF16, {1, 2, 4, 4}}}, .attrs = square, .check_gradient = false});
  examples.push_back(
      {.inputs = {{DType::kBF16, {1, 2, 4, 4}}}, .attrs = square, .check_gradient = false});
  examples.push_back({.inputs = {bytes}, .attrs = square});
  return examples;
}

std::vector<Example> average_examples() {
  std::vector<Example> examples;
  for (auto& [x, attrs] : windows()) {
    examples.push_back({.inputs = {x}, .attrs = attrs});
    attrs.set("count_include_pad", int64_t{1});
    examples.push_back({.inputs = {x}, .attrs = attrs});
  }
  const Attrs square{{"kernel_shape", Ints{2, 2}}};
  examples.push_back({.inputs = {{1, 2, 3, 4, 3}}, .attrs = {{"kernel_shape", Ints{2, 2, 2}}}});
  examples.push_back({.inputs = {{DType::kF64, {1, 2, 4, 4}}}, .attrs = square});
  examples.push_back(
      {.inputs = {{DType::kF16, {1, 2, 4, 4}}}, .attrs = square, .check_gradient = false});
  examples.push_back(
      {.inputs = {{DType::kBF16, {2, 2, 4, 4}}}, .attrs = square, .check_gradient = false});
  return examples;
}

}  // namespace

std::vector<OpDef> pool_ops() {
  return {
      {.name = "MaxPool",
       .facts = moving({.onnx = 1,
                        .onnx_later = kBf16Since22,
                        .rank = RankRule::kFirst,
                        .per_image = each_image}),
       .max_outputs = 2,
       .attrs = max_pool_attrs(),
       .complete = complete,
       .infer = infer_max,
       .reference = max_reference,
       .gradient = max_gradient,
       .examples = max_examples()},
      {.name = "AveragePool",
       .facts = {.onnx = 1,
                 .onnx_later = kBf16Since22,
                 .kind = OpKind::kReduce,
                 .rounding = Rounding::kRounds,
                 .sign = Sign::kAsInputs,
                 .rank = RankRule::kFirst,
                 .per_image = each_image},
       .attrs = average_pool_attrs(),
       .complete = complete,
       .infer = infer_average,
       .reference = average_reference,
       .gradient = average_gradient,
       .terms = terms,
       .examples = average_examples()},
  };
}

}  // namespace ndtrain
