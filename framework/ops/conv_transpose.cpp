// ConvTranspose: y[n,m,o*stride+k*dilation-pad] = b[m] + sum over c, o, k of x[n,c,o] * w[c,m,k]:
// what a Conv of y's shape with the weight w gives back as the gradient of its input. In a graph it
// is that: ConvGradInput, and an Add of the bias.
#include "framework/core/limits.h"
#include "framework/ops/common.h"
#include "framework/ops/conv.h"

namespace ndtrain {
namespace {

using Kind = AttrSpec::Kind;

void check_values(const Attrs& a, const char* name, size_t length, int64_t low) {
  if (a.ints(name).size() != length) {
    throw Error(name, " has ", a.ints(name).size(), " values, expected ", length);
  }
  for (const int64_t v : a.ints(name)) {
    if (v < low || v > limits::kWindow) {
      throw Error(name, " has the value ", v, ", expected ", low, " to ", limits::kWindow);
    }
  }
}

// Without padding and output_padding.
Ints full_extents(const Attrs& a, const Shape& x) {
  Ints full;
  for (size_t d = 0; d + 2 < static_cast<size_t>(x.rank()); ++d) {
    const int64_t span = (a.ints("kernel_shape")[d] - 1) * a.ints("dilations")[d] + 1;
    full.push_back(a.ints("strides")[d] * (x[static_cast<int>(d) + 2] - 1) + span);
  }
  return full;
}

// From output_shape, or auto_pad's multiple of the input. Where more is asked for than there is,
// output_padding makes it up.
void pads_for(Attrs& a, const Shape& x, const Ints& wanted) {
  const size_t rank = wanted.size();
  const Ints full = full_extents(a, x);
  Ints pads(2 * rank), more = a.ints("output_padding");
  for (size_t d = 0; d < rank; ++d) {
    const int64_t total = full[d] + more[d] - wanted[d];
    if (total < 0) more[d] -= total;
    const int64_t padding = std::max<int64_t>(0, total), half = padding / 2;
    pads[d] = a.s("auto_pad") == "SAME_UPPER" ? half : padding - half;
    pads[rank + d] = padding - pads[d];
  }
  a.set("pads", pads);
  a.set("output_padding", more);
}

void complete(Attrs& a, std::span<const TensorType> in) {
  const Shape &x = in[0].shape, &w = in[1].shape;
  if (x.rank() < 3 || w.rank() != x.rank()) {
    throw Error("input ", x, " and weight ", w, " must have one rank, 3 or more");
  }
  const size_t rank = static_cast<size_t>(x.rank()) - 2;
  const auto fill = [&](const char* name, Ints values) {
    if (!a.has(name) || a.ints(name).empty()) a.set(name, std::move(values));
  };
  fill("kernel_shape", Ints(w.dims().begin() + 2, w.dims().end()));
  for (const char* name : {"strides", "dilations"}) fill(name, Ints(rank, 1));
  fill("output_padding", Ints(rank, 0));
  for (const char* name : {"kernel_shape", "strides", "dilations"}) check_values(a, name, rank, 1);
  check_values(a, "output_padding", rank, 0);
  const std::string mode = a.s("auto_pad");
  if (a.has("output_shape") && !a.ints("output_shape").empty()) {
    Ints wanted = a.ints("output_shape");
    if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
    if (wanted.size() != rank) throw Error("output_shape ", Shape(wanted), " does not fit ", x);
    for (const int64_t extent : wanted) {
      if (extent < 1 || extent > limits::kElements) throw Error("output_shape has ", extent);
    }
    pads_for(a, x, wanted);
  } else if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    Ints wanted;
    for (size_t d = 0; d < rank; ++d) {
      wanted.push_back(x[static_cast<int>(d) + 2] * a.ints("strides")[d]);
    }
    pads_for(a, x, wanted);
  } else if (mode == "VALID") {
    a.set("pads", Ints(2 * rank, 0));
  } else if (mode != "NOTSET") {
    throw Error("auto_pad is '", mode, "', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  }
  fill("pads", Ints(2 * rank, 0));
  check_values(a, "pads", 2 * rank, 0);
  a.erase("output_shape");
  a.set("auto_pad", "NOTSET");
}

Shape output_shape(const Attrs& a, const Shape& x, const Shape& w) {
  Ints out = full_extents(a, x);
  const size_t rank = out.size();
  for (size_t d = 0; d < rank; ++d) {
    const int64_t more = a.ints("output_padding")[d], stride = a.ints("strides")[d];
    if (more < 0 || more >= stride) {
      throw Error("output_padding ", more, " is not below the stride, which is ", stride);
    }
    out[d] += more - a.ints("pads")[d] - a.ints("pads")[rank + d];
    if (out[d] < 1) throw Error("padding leaves nothing of spatial dim ", d);
  }
  return shape_of_planes(x[0], w[1] * a.i("group"), out);
}

// The attributes of the Conv of which this is the gradient.
Attrs as_gradient(const Attrs& a, const Shape& y) {
  Attrs attrs = a;
  attrs.erase("output_padding");
  attrs.set("input_shape", y.dims());
  return attrs;
}

void infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  for (size_t i = 1; i < c.in.size(); ++i) require_same_dtype(c, 0, i);
  const Shape &x = c.shape(0), &w = c.shape(1);
  const Shape y = output_shape(c.attrs, x, w);
  check_conv_bias(c, 2, y);
  const ConvShape s = conv_shape(as_gradient(c.attrs, y), y, w);
  if (s.output() != x)
    throw Error("input ", x, " does not fit weight ", w, ", expected ", s.output());
  c.out = {{c.in[0].dtype, y}};
}

void reference(const ReferenceContext& c) {
  const Shape& y = c.out_shape();
  const ConvShape s = conv_shape(as_gradient(c.attrs, y), y, c.shape(1));
  for_each_product(
      s, [&](int64_t from, int64_t to, int64_t w) { c.out[0][to] += c.in[0][from] * c.in[1][w]; });
  if (!c.has(2)) return;
  const int64_t plane = y.count(2, y.rank());
  for (int64_t i = 0; i < y.count(); ++i) c.out[0][i] += c.in[2][i / plane % y[1]];
}

std::vector<ValueId> compose(ComposeContext& c) {
  const Shape y = c.out_shape();
  const ValueId sum = c.g.add1("ConvGradInput", {c.x(0), c.x(1)}, as_gradient(c.node.attrs, y));
  if (!c.has(2)) return {sum};
  std::vector<int64_t> dims(static_cast<size_t>(y.rank()), 1);
  dims[1] = y[1];
  return {c.g.add1("Add", {sum, reshape(c.g, c.x(2), Shape(dims))})};
}

std::vector<Example> examples() {
  const Ints s2{2, 2};
  return {
      {{{1, 2, 3, 3}, {2, 3, 3, 3}, {3}}},
      {{{2, 3, 4, 5}, {3, 2, 2, 2}}, {{"strides", s2}}},
      {{{1, 4, 3, 4}, {4, 1, 3, 3}, {2}},
       {{"group", int64_t{2}}, {"strides", s2}, {"pads", Ints{1, 1, 0, 1}}}},
      {{{1, 2, 3, 3}, {2, 2, 3, 3}},
       {{"strides", Ints{3, 2}}, {"output_padding", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}}},
      {{{1, 2, 3, 3}, {2, 1, 3, 3}}, {{"strides", Ints{3, 2}}, {"output_shape", Ints{10, 8}}}},
      {{{1, 2, 3, 4}, {2, 1, 3, 3}}, {{"strides", s2}, {"auto_pad", "SAME_UPPER"}}},
      {{{1, 2, 3, 4}, {2, 1, 1, 3}}, {{"strides", s2}, {"auto_pad", "SAME_LOWER"}}},
      {{{1, 2, 3, 4}, {2, 1, 2, 3}}, {{"strides", s2}, {"auto_pad", "VALID"}}},
      {{{1, 2, 3, 3}, {2, 1, 2, 2}}, {{"dilations", Ints{2, 3}}}},
      {{{1, 2, 4}, {2, 3, 3}, {3}}, {{"strides", Ints{2}}}},
      {{{1, 1, 2, 3, 2}, {1, 2, 2, 1, 2}}},
      {{{DType::kF64, {1, 2, 3, 3}}, {DType::kF64, {2, 1, 2, 2}}, {DType::kF64, {1}}}},
  };
}

}  // namespace

std::vector<OpDef> conv_transpose_ops() {
  return {{.name = "ConvTranspose",
           .facts = {.onnx = 1, .onnx_later = kBf16Since22, .rank = RankRule::kFirst},
           .min_inputs = 2,
           .max_inputs = 3,
           .attrs = conv_attrs({{"output_padding", Kind::kInts}, {"output_shape", Kind::kInts}}),
           .complete = complete,
           .infer = infer,
           .reference = reference,
           .compose = compose,
           .examples = examples()}};
}

}  // namespace ndtrain
