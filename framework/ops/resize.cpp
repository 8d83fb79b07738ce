// Resize: each axis by itself, a place of the output from the places of the input around the one it
// comes from (resize_taps.h). In a graph it is one Gather or Interpolate for each axis.
#include "framework/ops/common.h"
#include "framework/ops/resize_taps.h"

namespace ndtrain {
namespace {

// Inputs: x, roi, scales, sizes; those of no elements are absent.
template <typename Values>
std::vector<ResizedAxis> axes_of(const Attrs& a, const Shape& x, size_t inputs, Values values) {
  const auto given = [&](size_t i) { return i < inputs ? values(i) : std::vector<double>(); };
  const std::vector<double> sizes = given(3);
  return resized_axes(a, x, given(1), given(2), Ints(sizes.begin(), sizes.end()));
}

Shape resized(const Shape& x, const std::vector<ResizedAxis>& axes) {
  Shape y = x;
  for (const ResizedAxis& r : axes) y = y.with(r.axis, r.out);
  return y;
}

void infer(InferContext& c) {
  require(c, 1, is_float, "a float dtype");
  require(c, 2, is_float, "a float dtype");
  require(c, 3, is_index, "i32 or i64");
  const auto axes = axes_of(c.attrs, c.shape(0), c.in.size(), [&](size_t i) {
    if (!c.has(i) || c.shape(i).count() == 0) return std::vector<double>();
    if (!c.known[i].defined()) {
      // Only tf_crop_and_resize looks at the region.
      if (i == 1 && c.attrs.s("coordinate_transformation_mode") != "tf_crop_and_resize") {
        return std::vector<double>();
      }
      throw Error("input ", i, " must be known in advance");
    }
    return c.known[i].to_doubles();
  });
  const bool computes = c.attrs.s("mode") != "nearest";
  if (computes) require(c, 0, is_float, "a float dtype: only mode nearest takes others");
  c.out = {{c.in[0].dtype, resized(c.shape(0), axes)}};
}

void reference(const ReferenceContext& c) {
  std::vector<double> y = c.in[0];
  Shape shape = c.shape(0);
  const auto axes = axes_of(c.attrs, shape, c.in.size(), [&](size_t i) { return c.in[i]; });
  for (const ResizedAxis& r : axes) {
    if (!r.changes) continue;
    const ResizeTaps t = resize_taps(c.attrs, r);
    const int64_t outer = shape.count(0, r.axis), inner = shape.count(r.axis + 1, shape.rank());
    std::vector<double> next(static_cast<size_t>(outer * r.out * inner));
    for (int64_t row = 0; row < outer * r.out; ++row) {
      const int64_t o = row % r.out;
      for (int64_t i = 0; i < inner; ++i) {
        double& sum = next[static_cast<size_t>(row * inner + i)];
        for (int64_t k = 0; k < t.taps; ++k) {
          const auto tap = static_cast<size_t>(o * t.taps + k);
          const int64_t from = row / r.out * r.in + t.from[tap];
          sum += t.weights[tap] * y[static_cast<size_t>(from * inner + i)];
        }
        if (t.outside[static_cast<size_t>(o)]) sum = c.attrs.f("extrapolation_value");
      }
    }
    y = std::move(next);
    shape = shape.with(r.axis, r.out);
  }
  c.out[0] = std::move(y);
}

ValueId resize_axis(ComposeContext& c, ValueId x, const ResizedAxis& r) {
  const ResizeTaps t = resize_taps(c.node.attrs, r);
  const Attrs axis{{"axis", int64_t{r.axis}}};
  const DType dtype = c.g.type(x).dtype;
  ValueId y = kNone;
  if (c.node.attrs.s("mode") == "nearest") {
    y = c.g.add1("Gather", {x, c.g.add_constant("", t.from)}, axis);
  } else {
    const Shape rows{r.out, t.taps};
    const DType wide = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    const ValueId at = c.g.add_constant("", Tensor::i64(t.from).reshaped(rows));
    const ValueId by = c.g.add_constant("", Tensor::from_doubles({wide, rows}, t.weights));
    y = c.g.add1("Interpolate", {x, at, by}, axis);
  }
  if (!t.any_outside) return y;
  std::vector<int64_t> dims(static_cast<size_t>(c.g.shape(x).rank()), 1);
  dims[static_cast<size_t>(r.axis)] = r.out;
  const std::vector<double> outside(t.outside.begin(), t.outside.end());
  const ValueId mask =
      c.g.add_constant("", Tensor::from_doubles({DType::kBool, Shape(dims)}, outside));
  return c.g.add1("Where", {mask, scalar_like(c.g, c.node.attrs.f("extrapolation_value"), y), y});
}

// What becomes smaller first, and of what grows the last axis first: less is computed.
std::vector<ValueId> compose(ComposeContext& c) {
  std::vector<ResizedAxis> axes =
      axes_of(c.node.attrs, c.shape(0), c.node.inputs.size(), [&](size_t i) {
        const Tensor data = c.has(i) ? c.g.value(c.x(i)).data : Tensor();
        return data.defined() ? data.to_doubles() : std::vector<double>();
      });
  std::ranges::sort(axes, [](const ResizedAxis& a, const ResizedAxis& b) {
    const bool grows = a.out > a.in, other = b.out > b.in;
    if (grows != other) return !grows;
    return grows ? a.axis > b.axis : a.axis < b.axis;
  });
  ValueId y = c.x(0);
  for (const ResizedAxis& r : axes) {
    if (r.changes) y = resize_axis(c, y, r);
  }
  return {y};
}

ExampleInput known(ExampleInput e) {
  e.known = true;
  return e;
}

std::vector<Example> examples() {
  using E = ExampleInput;
  const auto scales = [](std::vector<double> v) {
    const auto n = static_cast<int64_t>(v.size());
    return known(E::given(DType::kF32, {n}, std::move(v)));
  };
  const E none = E::absent();
  const auto sized = [&](E x, Ints to, Attrs attrs) {
    return Example{.inputs = {std::move(x), none, none, E::ints(std::move(to))},
                   .attrs = std::move(attrs)};
  };
  const auto in = [](const char* mode, const char* where) {
    return Attrs{{"mode", mode}, {"coordinate_transformation_mode", where}};
  };
  std::vector<Example> list;
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* where : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                              "asymmetric", "align_corners", "tf_half_pixel_for_nn"}) {
      list.push_back({{{1, 2, 4, 3}, none, scales({1, 1, 1.6, 0.7})}, in(mode, where)});
    }
    list.push_back(sized({2, 2, 5, 3}, {2, 2, 1, 7}, in(mode, "half_pixel")));
  }
  for (const char* nearest : {"round_prefer_ceil", "floor", "ceil"}) {
    list.push_back(sized({3, 4}, {2, 8}, {{"nearest_mode", nearest}}));
  }
  for (const char* policy : {"not_larger", "not_smaller"}) {
    list.push_back(
        sized({1, 3, 4}, {7, 6}, {{"axes", Ints{1, -1}}, {"keep_aspect_ratio_policy", policy}}));
  }
  for (const char* mode : {"linear", "cubic"}) {
    list.push_back(sized({1, 8, 9}, {1, 3, 12}, {{"mode", mode}, {"antialias", int64_t{1}}}));
    list.push_back(sized({1, 8, 9}, {1, 3, 12}, {{"mode", mode}, {"exclude_outside", int64_t{1}}}));
    const E roi = scales({0, 0.4, 0.6, 1, 1.2, 1.7});
    Attrs crop = in(mode, "tf_crop_and_resize");
    crop.set("extrapolation_value", 10.0);
    list.push_back({{{1, 4, 4}, roi, none, E::ints({1, 3, 3})}, crop});
  }
  list.push_back(sized({2, 3}, {2, 3}, {}));
  list.push_back(sized({DType::kU8, {1, 1, 2, 2}}, {1, 1, 4, 4}, {}));
  for (const DType t : {DType::kF64, DType::kF16}) {
    list.push_back(sized({t, {1, 1, 2, 2}}, {1, 1, 3, 4}, in("linear", "half_pixel")));
  }
  return list;
}

}  // namespace

std::vector<OpDef> resize_ops() {
  using Kind = AttrSpec::Kind;
  return {
      {.name = "Resize",
       .facts = {.onnx = 10,
                 .onnx_later =
                     {{.since = 18, .attribute = "antialias"},
                      {.since = 18, .attribute = "keep_aspect_ratio_policy", .text = "not_larger"},
                      {.since = 18, .attribute = "keep_aspect_ratio_policy", .text = "not_smaller"},
                      {.since = 19,
                       .attribute = "coordinate_transformation_mode",
                       .text = "half_pixel_symmetric"},
                      {.since = kNever,
                       .attribute = "coordinate_transformation_mode",
                       .text = "tf_half_pixel_for_nn"}},
                 .rank = RankRule::kFirst},
       .max_inputs = 4,
       .attrs = {{"antialias", Kind::kInt, Attr(int64_t{0})},
                 {"axes", Kind::kInts},
                 {"coordinate_transformation_mode", Kind::kString, Attr("half_pixel")},
                 {"cubic_coeff_a", Kind::kFloat, Attr(-0.75)},
                 {"exclude_outside", Kind::kInt, Attr(int64_t{0})},
                 {"extrapolation_value", Kind::kFloat, Attr(0.0)},
                 {"keep_aspect_ratio_policy", Kind::kString, Attr("stretch")},
                 {"mode", Kind::kString, Attr("nearest")},
                 {"nearest_mode", Kind::kString, Attr("round_prefer_floor")}},
       .infer = infer,
       .reference = reference,
       .shape_inputs = 0b1110,
       .compose = compose,
       .examples = examples()}};
}

}  // namespace ndtrain
