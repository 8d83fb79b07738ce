// What is put together from windows of a plane. LpPool: y = (sum over a window of |x|^p)^(1/p); in
// a graph a convolution of ones between two powers. MaxUnpool: x at the places that MaxPool's
// indices name, 0 elsewhere; in a graph a ScatterElements. Col2Im: columns, one for each place of a
// window, whose cells are added to the image where the window had taken them; a ScatterElements
// too.
#include "framework/core/limits.h"
#include "framework/ops/common.h"
#include "framework/ops/spatial.h"

namespace ndtrain {
namespace {

using Kind = AttrSpec::Kind;

void complete_pool(Attrs& a, std::span<const TensorType> in) { complete_window(a, in[0].shape); }

void lp_infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  if (c.attrs.i("p") < 1) throw Error("p is ", c.attrs.i("p"), ", must be 1 or more");
  const Window w = window_of(c.attrs, c.shape(0));
  c.out = {{c.in[0].dtype, shape_of_planes(c.shape(0)[0], c.shape(0)[1], w.out)}};
}

void lp_reference(const ReferenceContext& c) {
  const Window w = window_of(c.attrs, c.shape(0));
  const auto p = static_cast<double>(c.attrs.i("p"));
  const int64_t in = w.in_count(), out = w.out_count();
  for (int64_t plane = 0; plane < c.shape(0).count(0, 2); ++plane) {
    for_each_tap(w, [&](int64_t o, int64_t, int64_t i) {
      c.out[0][plane * out + o] += std::pow(std::abs(c.in[0][plane * in + i]), p);
    });
  }
  for (double& y : c.out[0]) y = std::pow(y, 1 / p);
}

// Sums of each channel over its windows.
ValueId window_sums(Graph& g, ValueId x, const Window& w, const Attrs& a) {
  const int64_t channels = g.shape(x)[1];
  Ints pads = w.begin;
  for (int d = 0; d < w.rank(); ++d) {  // as far as the last window goes, which ceil_mode decides
    const int64_t reach = (w.out[d] - 1) * w.stride[d] + w.span(d);
    pads.push_back(std::max<int64_t>(0, reach - w.in[d] - w.begin[d]));
  }
  const ValueId ones = expand(g, scalar_like(g, 1, x), shape_of_planes(channels, 1, w.kernel));
  return g.add1("Conv", {x, ones},
                {{"group", channels},
                 {"kernel_shape", w.kernel},
                 {"strides", a.ints("strides")},
                 {"dilations", a.ints("dilations")},
                 {"pads", pads}});
}

// A root has no slope at 0: where all of a window is 0 so is its gradient.
ValueId root(Graph& g, ValueId x, int64_t p) {
  if (p == 1) return x;
  const ValueId zero = scalar_like(g, 0, x), none = g.add1("Equal", {x, zero});
  const ValueId safe = g.add1("Where", {none, scalar_like(g, 1, x), x});
  const ValueId y = p == 2 ? g.add1("Sqrt", {safe})
                           : g.add1("Pow", {safe, scalar_like(g, 1 / static_cast<double>(p), x)});
  return g.add1("Where", {none, zero, y});
}

std::vector<ValueId> lp_compose(ComposeContext& c) {
  Graph& g = c.g;
  const int64_t p = c.node.attrs.i("p");
  ValueId powers = g.add1("Abs", {c.x(0)});
  if (p == 2) powers = g.add1("Mul", {powers, powers});
  if (p > 2) powers = g.add1("Pow", {powers, scalar_like(g, static_cast<double>(p), powers)});
  const Window w = window_of(c.node.attrs, c.shape(0));
  return {root(g, window_sums(g, powers, w, c.node.attrs), p)};
}

int64_t lp_terms(const Attrs& a, std::span<const TensorType> in) {
  return window_of(a, in[0].shape).taps();
}

// The shape of what was pooled, where output_shape does not say it.
Shape unpooled(const Attrs& a, const Shape& x) {
  if (x.rank() < 3) throw Error("input ", x, " has no spatial dims (expected [N, C, …])");
  const size_t rank = static_cast<size_t>(x.rank()) - 2;
  const Ints& kernel = a.ints("kernel_shape");
  const Ints strides = a.has("strides") ? a.ints("strides") : Ints(rank, 1);
  const Ints pads = a.has("pads") ? a.ints("pads") : Ints(2 * rank, 0);
  if (kernel.size() != rank || strides.size() != rank || pads.size() != 2 * rank) {
    throw Error("kernel_shape, strides or pads do not fit ", x);
  }
  for (const Ints& values : {kernel, strides, pads}) {
    for (const int64_t v : values) {
      if (v < 0 || v > limits::kWindow) throw Error("a kernel, stride or pad is ", v);
    }
  }
  Ints out;
  for (size_t d = 0; d < rank; ++d) {
    out.push_back((x[static_cast<int>(d) + 2] - 1) * strides[d] - pads[d] - pads[rank + d] +
                  kernel[d]);
  }
  return shape_of_planes(x[0], x[1], out);
}

void unpool_infer(InferContext& c) {
  require(c, 1, is_index, "i32 or i64");
  if (c.shape(0) != c.shape(1)) throw Error("values are ", c.in[0], ", indices ", c.in[1]);
  const Shape least = unpooled(c.attrs, c.shape(0));
  const Shape y = c.has(2) ? Shape(c.ints(2)) : least;
  bool fits = y.rank() == least.rank();
  for (int d = 0; fits && d < y.rank(); ++d) fits = y[d] >= least[d];
  if (!fits) throw Error("output_shape is ", y, ", must be at least ", least);
  c.out = {{c.in[0].dtype, y}};
}

// Indices are of the tensor that was pooled, which lies in the first corner of a larger output.
void unpool_reference(const ReferenceContext& c) {
  const Shape least = unpooled(c.attrs, c.shape(0)), &y = c.out_shape();
  const std::vector<int64_t> from = least.strides(), to = y.strides();
  for (size_t i = 0; i < c.in[0].size(); ++i) {
    const int64_t at = static_cast<int64_t>(c.in[1][i]);
    if (at < 0 || at >= least.count()) throw Error("index ", at, " is not in ", least);
    int64_t place = 0;
    for (size_t d = 0; d < to.size(); ++d) {
      place += at / from[d] % least[static_cast<int>(d)] * to[d];
    }
    c.out[0][static_cast<size_t>(place)] = c.in[0][i];
  }
}

std::vector<ValueId> unpool_compose(ComposeContext& c) {
  const Shape least = unpooled(c.node.attrs, c.shape(0)), y = c.out_shape();
  Graph& g = c.g;
  const Shape flat{c.shape(0).count()};
  const ValueId zeros = expand(g, scalar_like(g, 0, c.x(0)), Shape{least.count()});
  const ValueId put =
      g.add1("ScatterElements", {zeros, reshape(g, c.x(1), flat), reshape(g, c.x(0), flat)});
  const ValueId inner = reshape(g, put, least);
  if (y == least) return {inner};
  Ints pads(static_cast<size_t>(y.rank()), 0);
  for (int d = 0; d < y.rank(); ++d) pads.push_back(y[d] - least[d]);
  return {g.add1("Pad", {inner, g.add_constant("", pads)})};
}

// The window slides over one plane of the image.
Window columns_of(const Attrs& a, const Ints& image, const Ints& block) {
  if (image.size() != block.size() || image.empty()) {
    throw Error("image_shape is ", Shape(image), ", block_shape ", Shape(block));
  }
  Attrs window{{"kernel_shape", block}};
  for (const char* name : {"dilations", "pads", "strides"}) {
    if (a.has(name) && !a.ints(name).empty()) window.set(name, a.ints(name));
  }
  const Shape plane = shape_of_planes(1, 1, image);
  complete_window(window, plane);
  return window_of(window, plane);
}

void col2im_infer(InferContext& c) {
  const Ints image = c.ints(1);
  const Window w = columns_of(c.attrs, image, c.ints(2));
  const Shape& x = c.shape(0);
  if (x.rank() != 3 || x[1] % w.taps() != 0 || x[2] != w.out_count()) {
    throw Error("input ", x, " does not fit: expected [N, C * ", w.taps(), ", ", w.out_count(),
                "]");
  }
  require(c, 0, is_number, "a numeric dtype");
  c.out = {{c.in[0].dtype, shape_of_planes(x[0], x[1] / w.taps(), image)}};
}

void col2im_reference(const ReferenceContext& c) {
  const Window w = columns_of(c.attrs, c.ints(1), c.ints(2));
  const int64_t taps = w.taps(), in = w.in_count(), out = w.out_count();
  for (int64_t plane = 0; plane < c.out_shape().count(0, 2); ++plane) {
    for_each_tap(w, [&](int64_t o, int64_t k, int64_t i) {
      c.out[0][plane * in + i] += c.in[0][(plane * taps + k) * out + o];
    });
  }
}

// Cells that the window had taken from the padding go behind the plane.
std::vector<ValueId> col2im_compose(ComposeContext& c) {
  Graph& g = c.g;
  const Ints image = g.value(c.x(1)).data.to_ints(), block = g.value(c.x(2)).data.to_ints();
  const Window w = columns_of(c.node.attrs, image, block);
  const int64_t in = w.in_count(), out = w.out_count(), cells = w.taps() * out;
  Ints to(static_cast<size_t>(cells), in);
  for_each_tap(w,
               [&](int64_t o, int64_t k, int64_t i) { to[static_cast<size_t>(k * out + o)] = i; });
  const Shape y = c.out_shape();
  const int64_t planes = y.count(0, 2);
  const ValueId places = reshape(g, g.add_constant("", to), Shape{1, cells});
  const ValueId put =
      g.add1("ScatterElements",
             {expand(g, scalar_like(g, 0, c.x(0)), Shape{planes, in + 1}),
              expand(g, places, Shape{planes, cells}), reshape(g, c.x(0), Shape{planes, cells})},
             {{"axis", int64_t{1}}, {"reduction", std::string("add")}});
  const ValueId inner =
      g.add1("Slice", {put, g.add_constant("", Ints{0}), g.add_constant("", Ints{in}),
                       g.add_constant("", Ints{1})});
  return {reshape(g, inner, y)};
}

int64_t col2im_terms(const Attrs&, std::span<const TensorType> in) {
  return std::max<int64_t>(1, in[0].shape[1]);
}

std::vector<Example> lp_examples() {
  const Ints k2{2, 2}, k3{3, 3}, p1{1, 1, 1, 1};
  return {{{{1, 2, 5, 6}}, {{"kernel_shape", k2}}},
          {{{2, 1, 5, 5}}, {{"kernel_shape", k3}, {"pads", p1}, {"p", int64_t{1}}}},
          {{{1, 1, 6, 6}}, {{"kernel_shape", k3}, {"strides", k2}, {"p", int64_t{3}}}},
          {{{1, 2, 7}}, {{"kernel_shape", Ints{3}}, {"auto_pad", "SAME_LOWER"}}},
          {{{1, 1, 6, 7}},
           {{"kernel_shape", k3}, {"strides", k2}, {"pads", p1}, {"ceil_mode", int64_t{1}}}},
          {{{1, 1, 7, 7}}, {{"kernel_shape", k2}, {"dilations", k2}, {"strides", k2}}},
          {{{DType::kF64, {1, 1, 4, 4}}}, {{"kernel_shape", k2}}}};
}

std::vector<Example> unpool_examples() {
  using E = ExampleInput;
  const Attrs square{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  const E at = E::given(DType::kI64, {1, 1, 2, 2}, {5, 7, 13, 15});
  return {{{{1, 1, 2, 2}, at}, square},
          {{{1, 2, 2}, E::given(DType::kI64, {1, 2, 2}, {0, 3, 5, 6})},
           {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}}},
          {{{1, 1, 2, 2}, at, E::ints({1, 1, 5, 6})}, square}};
}

std::vector<Example> col2im_examples() {
  using E = ExampleInput;
  return {{{{1, 5, 5}, E::ints({5, 5}), E::ints({1, 5})}},
          {{{2, 8, 4}, E::ints({3, 3}), E::ints({2, 2})}},
          {{{1, 9, 4}, E::ints({5, 5}), E::ints({3, 3})},
           {{"strides", Ints{2, 2}}, {"dilations", Ints{1, 1}}}},
          {{{1, 4, 16}, E::ints({4, 4}), E::ints({2, 2})},
           {{"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{2, 2}}}}};
}

}  // namespace

std::vector<OpDef> unpool_ops() {
  return {
      {.name = "LpPool",
       .facts = {.onnx = 1,
                 .onnx_later = {{22, DType::kBF16}, {.since = 18, .attribute = "ceil_mode"}},
                 .sign = Sign::kNeverNegative,
                 .rank = RankRule::kFirst},
       .attrs = window_attrs(
           {{"ceil_mode", Kind::kInt, Attr(int64_t{0})}, {"p", Kind::kInt, Attr(int64_t{2})}}),
       .complete = complete_pool,
       .infer = lp_infer,
       .reference = lp_reference,
       .terms = lp_terms,
       .compose = lp_compose,
       .examples = lp_examples()},
      {.name = "MaxUnpool",
       .facts = {.onnx = 9,
                 .onnx_later = kBf16Since22,
                 .sign = Sign::kAsInputs,
                 .rank = RankRule::kFirst},
       .min_inputs = 2,
       .max_inputs = 3,
       .attrs = {{.name = "kernel_shape", .kind = Kind::kInts, .required = true},
                 {"pads", Kind::kInts},
                 {"strides", Kind::kInts}},
       .infer = unpool_infer,
       .reference = unpool_reference,
       .shape_inputs = 0b100,
       .compose = unpool_compose,
       .examples = unpool_examples()},
      {.name = "Col2Im",
       .facts = {.onnx = 18},
       .min_inputs = 3,
       .max_inputs = 3,
       .attrs = {{"dilations", Kind::kInts}, {"pads", Kind::kInts}, {"strides", Kind::kInts}},
       .infer = col2im_infer,
       .reference = col2im_reference,
       .terms = col2im_terms,
       .shape_inputs = 0b110,
       .compose = col2im_compose,
       .examples = col2im_examples()},
  };
}

}  // namespace ndtrain
