// Concat puts tensors behind each other along an axis; Split takes one apart again.
#include "framework/core/limits.h"
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void concat_infer(InferContext& c) {
  const int axis = c.shape(0).axis(c.attrs.i("axis"), "axis");
  int64_t extent = 0;
  for (size_t i = 0; i < c.in.size(); ++i) {
    if (!c.has(i)) throw Error("input ", i, " is absent");
    require_same_dtype(c, 0, i);
    const Shape& s = c.shape(i);
    if (s.rank() != c.shape(0).rank() || !(s.with(axis, 0) == c.shape(0).with(axis, 0))) {
      throw Error("inputs 0 and ", i, " differ beside axis ", axis, ": ", c.in[0], " and ",
                  c.in[i]);
    }
    if (__builtin_add_overflow(extent, s[axis], &extent)) throw Error("axis ", axis, " overflows");
  }
  c.out = {{c.in[0].dtype, c.shape(0).with(axis, extent)}};
}

void concat_reference(const ReferenceContext& c) {
  const Shape& y = c.out_shape();
  const int axis = y.axis(c.attrs.i("axis"), "axis");
  const int64_t outer = y.count(0, axis), inner = y.count(axis + 1, y.rank());
  int64_t begin = 0;
  for (size_t k = 0; k < c.in.size(); ++k) {
    const int64_t extent = c.shape(k)[axis];
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < extent * inner; ++i) {
        c.out[0][(o * y[axis] + begin) * inner + i] = c.in[k][o * extent * inner + i];
      }
    }
    begin += extent;
  }
}

std::vector<ValueId> concat_gradient(GradientContext& c) {
  const size_t n = c.node.inputs.size();
  if (n == 1) return {c.dy[0]};
  const int axis = c.shape(c.y()).axis(c.node.attrs.i("axis"), "axis");
  Ints sizes;
  for (size_t i = 0; i < n; ++i) sizes.push_back(c.shape(c.x(i))[axis]);
  return c.g.add("Split", {c.dy[0], c.g.add_constant("", sizes)}, {{"axis", int64_t{axis}}},
                 static_cast<int>(n));
}

// The extents of the parts: as given, or equal, where the last may be smaller.
Ints split_sizes(const InferContext& c, int64_t extent) {
  const int64_t n = c.n_outputs;
  if (c.has(1)) {
    if (c.attrs.has("num_outputs")) throw Error("both split and num_outputs are given");
    Ints sizes = c.ints(1);
    if (static_cast<int64_t>(sizes.size()) != n) {
      throw Error("split names ", sizes.size(), " parts, there are ", n, " outputs");
    }
    int64_t sum = 0;
    for (const int64_t s : sizes) {
      if (s < 0) throw Error("split has a part of ", s);
      if (__builtin_add_overflow(sum, s, &sum)) throw Error("the parts of split overflow");
    }
    if (sum != extent) throw Error("the parts of split sum to ", sum, ", the axis has ", extent);
    return sizes;
  }
  if (c.attrs.has("num_outputs") && c.attrs.i("num_outputs") != n) {
    throw Error("num_outputs is ", c.attrs.i("num_outputs"), ", there are ", n, " outputs");
  }
  const int64_t part = (extent + n - 1) / n;
  Ints sizes(static_cast<size_t>(n), part);
  sizes.back() = extent - part * (n - 1);
  if (sizes.back() < 0) throw Error("an axis of ", extent, " has no ", n, " parts of ", part);
  return sizes;
}

void split_infer(InferContext& c) {
  const int axis = c.shape(0).axis(c.attrs.i("axis"), "axis");
  c.out.clear();
  for (const int64_t s : split_sizes(c, c.shape(0)[axis])) {
    c.out.push_back({c.in[0].dtype, c.shape(0).with(axis, s)});
  }
}

void split_reference(const ReferenceContext& c) {
  const Shape& x = c.shape(0);
  const int axis = x.axis(c.attrs.i("axis"), "axis");
  const int64_t outer = x.count(0, axis), inner = x.count(axis + 1, x.rank());
  int64_t begin = 0;
  for (size_t k = 0; k < c.out.size(); ++k) {
    const int64_t extent = c.out_shape(k)[axis];
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < extent * inner; ++i) {
        c.out[k][o * extent * inner + i] = c.in[0][(o * x[axis] + begin) * inner + i];
      }
    }
    begin += extent;
  }
}

std::vector<ValueId> split_gradient(GradientContext& c) {
  std::vector<ValueId> parts;
  for (size_t k = 0; k < c.node.outputs.size(); ++k) parts.push_back(c.dy_or_zeros(k));
  return {c.g.add1("Concat", parts, {{"axis", c.node.attrs.i("axis")}})};
}

std::vector<Example> concat_examples() {
  const auto along = [](int64_t axis) { return Attrs{{"axis", axis}}; };
  std::vector<Example> list = {
      {{{4}, {3}}, along(0)},
      {{{2, 3, 4}, {2, 1, 4}, {2, 2, 4}}, along(1)},
      {{{2, 3}, {2, 2}}, along(-1)},
      {{{2, 3}, {4, 3}}, along(-2)},
      {{{2, 3}}, along(0)},
      {{{2, 0}, {2, 3}}, along(1)},
      {{{1, 8, 3, 3}, {1, 8, 3, 3}, {1, 4, 3, 3}}, along(1)},
  };
  for (const DType t : kMovedDTypes) {
    list.push_back({{{t, {2, 3}}, {t, {2, 2}}}, along(1)});
  }
  return list;
}

std::vector<Example> split_examples() {
  using E = ExampleInput;
  const auto with = [](int64_t axis, int64_t parts) {
    return Attrs{{"axis", axis}, {"num_outputs", parts}};
  };
  std::vector<Example> list = {
      {{{6}, E::ints({2, 4})}, {{"axis", int64_t{0}}}, 2},
      {{{2, 6, 3}, E::ints({1, 2, 3})}, {{"axis", int64_t{1}}}, 3},
      {{{2, 6}, E::ints({4, 0, 2})}, {{"axis", int64_t{-1}}}, 3},
      {{{6, 2}}, with(0, 3), 3},
      {{{2, 7}}, with(1, 4), 4},
      {{{2, 6}}, {{"axis", int64_t{1}}}, 2},
      {{{0}, E::ints({0, 0, 0})}, {}, 3},
      {{{3, 2}}, with(0, 1), 1},
  };
  for (const DType t : kMovedDTypes) {
    list.push_back({{{t, {2, 5}}, E::ints({2, 3})}, {{"axis", int64_t{1}}}, 2});
  }
  return list;
}

}  // namespace

std::vector<OpDef> concat_ops() {
  return {
      {.name = "Concat",
       .facts = moving({.onnx = 1, .rank = RankRule::kFirst, .per_image = each_image_off_axis_0}),
       .max_inputs = limits::kPorts,
       .attrs = {{.name = "axis", .kind = AttrSpec::Kind::kInt, .required = true}},
       .infer = concat_infer,
       .reference = concat_reference,
       .gradient = concat_gradient,
       .examples = concat_examples()},
      {.name = "Split",
       .facts = moving({.onnx = 1, .rank = RankRule::kFirst, .per_image = each_image_off_axis_0}),
       .max_inputs = 2,
       .max_outputs = limits::kPorts,
       .attrs = {{"axis", AttrSpec::Kind::kInt, Attr(int64_t{0})},
                 {"num_outputs", AttrSpec::Kind::kInt}},
       .infer = split_infer,
       .reference = split_reference,
       .gradient = split_gradient,
       .shape_inputs = 0b10,
       .examples = split_examples()},
  };
}

}  // namespace ndtrain
