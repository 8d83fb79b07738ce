// MaxPoolGrad: dy goes to the first maximum of its window, in row-major order.
// AveragePoolGrad: dy is spread evenly over the cells that its average counted.
#include "framework/ops/common.h"
#include "framework/ops/pool.h"

namespace ndtrain {
namespace {

void check_dy(const Shape& dy, const Shape& x, const Window& w) {
  if (dy != pooled(x, w)) {
    throw Error("gradient ", dy, " does not have the shape of the output ", pooled(x, w));
  }
}

// in: dy, x.
void complete_max(Attrs& a, std::span<const TensorType> in) { complete_window(a, in[1].shape); }

void infer_max(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  require_same_dtype(c, 0, 1);
  check_dy(c.shape(0), c.shape(1), pool_window(c.attrs, c.shape(1)));
  c.out.push_back(c.in[1]);
}

void max_reference(const ReferenceContext& c) {
  const Window w = pool_window(c.attrs, c.shape(1));
  const int64_t in = w.in_count(), out = w.out_count();
  for (int64_t p = 0; p < c.shape(1).count(0, 2); ++p) {
    std::vector<double> top(out, -INFINITY);
    std::vector<int64_t> from(out, -1);
    for_each_tap(w, [&](int64_t o, int64_t, int64_t i) {
      if (const double x = c.in[1][p * in + i]; x > top[o]) top[o] = x, from[o] = i;
    });
    for (int64_t o = 0; o < out; ++o) {
      if (from[o] >= 0) c.out[0][p * in + from[o]] += c.in[0][p * out + o];
    }
  }
}

Shape input_shape(const Attrs& a) {
  if (!a.has("input_shape")) throw Error("input_shape is missing");
  return Shape(a.ints("input_shape"));
}

void complete_average(Attrs& a, std::span<const TensorType>) { complete_window(a, input_shape(a)); }

void infer_average(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  const Shape x = input_shape(c.attrs);
  check_dy(c.shape(0), x, pool_window(c.attrs, x));
  c.out.push_back({c.in[0].dtype, x});
}

void average_reference(const ReferenceContext& c) {
  const Window w = pool_window(c.attrs, c.out_shape());
  const std::vector<double> counts = average_counts(c.attrs, w);
  const int64_t in = w.in_count(), out = w.out_count();
  for (int64_t p = 0; p < c.out_shape().count(0, 2); ++p) {
    for_each_tap(w, [&](int64_t o, int64_t, int64_t i) {
      c.out[0][p * in + i] += c.in[0][p * out + o] / counts[o];
    });
  }
}

int64_t max_terms(const Attrs& a, std::span<const TensorType> in) {
  return window_of(a, in[1].shape).taps();
}

int64_t average_terms(const Attrs& a, std::span<const TensorType>) {
  return window_of(a, input_shape(a)).taps();
}

struct Case {
  Shape x, y;
  Attrs attrs;
};

std::vector<Case> cases() {
  const Ints k2{2, 2}, k3{3, 3}, pads1{1, 1, 1, 1};
  return {
      {{1, 3, 6, 6}, {1, 3, 3, 3}, {{"kernel_shape", k2}, {"strides", k2}}},
      {{3, 2, 7, 5}, {3, 2, 4, 3}, {{"kernel_shape", k3}, {"strides", k2}, {"pads", pads1}}},
      {{1, 2, 6, 6}, {1, 2, 3, 3}, {{"kernel_shape", k3}, {"strides", k2}, {"ceil_mode", 1}}},
      {{1, 2, 6, 5},
       {1, 2, 4, 3},
       {{"kernel_shape", k3}, {"strides", k2}, {"pads", pads1}, {"ceil_mode", 1}}},
      {{1, 2, 8, 7}, {1, 2, 4, 5}, {{"kernel_shape", k3}, {"dilations", Ints{2, 1}}}},
      {{2, 2, 4, 4}, {2, 2, 1, 1}, {{"kernel_shape", Ints{4, 4}}}},
      {{2, 3, 9}, {2, 3, 4}, {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}}},
      {{1, 2, 3, 4, 3}, {1, 2, 2, 3, 2}, {{"kernel_shape", Ints{2, 2, 2}}}},
  };
}

std::vector<Example> max_examples() {
  std::vector<Example> examples;
  for (const Case& c : cases()) {
    examples.push_back({.inputs = {c.y, ExampleInput::no_ties(c.x)}, .attrs = c.attrs});
  }
  return examples;
}

std::vector<Example> average_examples() {
  std::vector<Example> examples;
  for (Case& c : cases()) {
    c.attrs.set("input_shape", c.x.dims());
    examples.push_back({.inputs = {c.y}, .attrs = c.attrs});
    c.attrs.set("count_include_pad", int64_t{1});
    examples.push_back({.inputs = {c.y}, .attrs = c.attrs});
  }
  return examples;
}

}  // namespace

std::vector<OpDef> pool_grad_ops() {
  return {
      {.name = "MaxPoolGrad",
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = max_pool_attrs(),
       .complete = complete_max,
       .infer = infer_max,
       .reference = max_reference,
       .terms = max_terms,
       .examples = max_examples()},
      {.name = "AveragePoolGrad",
       .attrs = average_pool_attrs({{"input_shape", AttrSpec::Kind::kInts, {}, true}}),
       .complete = complete_average,
       .infer = infer_average,
       .reference = average_reference,
       .terms = average_terms,
       .examples = average_examples()},
  };
}

}  // namespace ndtrain
