// DeformConv: a Conv whose taps are moved by offsets [N, offset_group * taps * 2, …] (down, across)
// and weighed by a mask; between places of x it is interpolated, outside it is 0 (Dai et al., 2017;
// Zhu et al., 2019).
#include "framework/ops/common.h"
#include "framework/ops/conv.h"

namespace ndtrain {
namespace {

using Kind = AttrSpec::Kind;

void infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  for (size_t i = 1; i < c.in.size(); ++i) require_same_dtype(c, 0, i);
  const Shape &x = c.shape(0), &offset = c.shape(2);
  if (x.rank() != 4) throw Error("input ", x, " is no batch of images [N, C, H, W]");
  const ConvShape s = conv_shape(c.attrs, x, c.shape(1));
  const Shape y = s.output();
  const int64_t groups = c.attrs.i("offset_group"), taps = s.window.taps();
  if (groups < 1 || groups > x[1] || x[1] % groups != 0) {
    throw Error("offset_group ", groups, " does not divide the channels of ", x);
  }
  if (offset != Shape{x[0], groups * taps * 2, y[2], y[3]}) {
    throw Error("offset ", offset, " does not fit, expected ",
                Shape{x[0], groups * taps * 2, y[2], y[3]});
  }
  if (c.has(4) && c.shape(4) != Shape{x[0], groups * taps, y[2], y[3]}) {
    throw Error("mask ", c.shape(4), " does not fit, expected ",
                Shape{x[0], groups * taps, y[2], y[3]});
  }
  check_conv_bias(c, 3, y);
  c.out = {{c.in[0].dtype, y}};
}

// x at (down, across), 0 outside.
double value_at(const double* plane, int64_t height, int64_t width, double down, double across) {
  if (!(down > -1 && down < static_cast<double>(height) && across > -1 &&
        across < static_cast<double>(width))) {
    return 0;
  }
  const auto top = static_cast<int64_t>(std::floor(down));
  const auto left = static_cast<int64_t>(std::floor(across));
  const double dy = down - static_cast<double>(top), dx = across - static_cast<double>(left);
  const auto at = [&](int64_t i, int64_t j) {
    return i < 0 || i >= height || j < 0 || j >= width ? 0 : plane[i * width + j];
  };
  return (1 - dy) * ((1 - dx) * at(top, left) + dx * at(top, left + 1)) +
         dy * ((1 - dx) * at(top + 1, left) + dx * at(top + 1, left + 1));
}

// The columns of one image: x [C, taps, out] where the taps were moved to.
std::vector<double> columns_of(const ReferenceContext& c, const ConvShape& s, int64_t image) {
  const Window& w = s.window;
  const int64_t channels = c.shape(0)[1], taps = w.taps(), out = w.out_count();
  const int64_t groups = c.attrs.i("offset_group"), per_group = channels / groups;
  std::vector<double> columns(static_cast<size_t>(channels * taps * out));
  for (int64_t i = 0; i < channels * taps * out; ++i) {
    const int64_t o = i % out, k = i / out % taps, channel = i / out / taps;
    const int64_t row = (image * groups + channel / per_group) * taps + k;
    const int64_t down = o / w.out[1] * w.stride[0] + k / w.kernel[1] * w.dilation[0] - w.begin[0];
    const int64_t across =
        o % w.out[1] * w.stride[1] + k % w.kernel[1] * w.dilation[1] - w.begin[1];
    const double* plane = c.in[0].data() + (image * channels + channel) * w.in_count();
    const double v =
        value_at(plane, w.in[0], w.in[1], static_cast<double>(down) + c.in[2][2 * row * out + o],
                 static_cast<double>(across) + c.in[2][(2 * row + 1) * out + o]);
    columns[static_cast<size_t>(i)] = c.has(4) ? v * c.in[4][row * out + o] : v;
  }
  return columns;
}

void reference(const ReferenceContext& c) {
  const ConvShape s = conv_shape(c.attrs, c.shape(0), c.shape(1));
  const int64_t taps = s.window.taps(), out = s.window.out_count();
  const int64_t rows = s.groups * s.out_channels;
  for (int64_t n = 0; n < s.n; ++n) {
    const std::vector<double> columns = columns_of(c, s, n);
    for (int64_t i = 0; i < rows * out; ++i) {
      const int64_t m = i / out, o = i % out, first = m / s.out_channels * s.in_channels;
      double sum = c.has(3) ? c.in[3][static_cast<size_t>(m)] : 0;
      for (int64_t k = 0; k < s.in_channels * taps; ++k) {
        sum += c.in[1][m * s.in_channels * taps + k] * columns[(first * taps + k) * out + o];
      }
      c.out[0][n * rows * out + i] = sum;
    }
  }
}

// Where the taps lie before they are moved, as GridSample counts, and what one place is there:
// across first. [1, taps, rows, columns, 2]
struct Places {
  ValueId at, step;
};

Places places_of(ComposeContext& c, const Window& w, DType dtype) {
  std::vector<double> at, step;
  for (const int d : {1, 0}) {
    // Of one place there is no distance to the next: it is that of two.
    step.push_back(2.0 / static_cast<double>(std::max<int64_t>(1, w.in[d] - 1)));
  }
  for (int64_t i = 0; i < w.taps() * w.out_count(); ++i) {
    const int64_t o = i % w.out_count(), k = i / w.out_count();
    const int64_t across =
        o % w.out[1] * w.stride[1] + k % w.kernel[1] * w.dilation[1] - w.begin[1];
    const int64_t down = o / w.out[1] * w.stride[0] + k / w.kernel[1] * w.dilation[0] - w.begin[0];
    at.push_back(static_cast<double>(across) * step[0] - 1);
    at.push_back(static_cast<double>(down) * step[1] - 1);
  }
  const Shape places{1, w.taps(), w.out[0], w.out[1], 2};
  return {c.g.add_constant("", Tensor::from_doubles({dtype, places}, at)),
          c.g.add_constant("", Tensor::from_doubles({dtype, Shape{2}}, step))};
}

// x [N * offset_group, C / offset_group, H, W] at [N * offset_group, taps * rows, columns, 2].
ValueId sampled_columns(ComposeContext& c, const ConvShape& s) {
  const Window& w = s.window;
  const int64_t groups = c.node.attrs.i("offset_group"), images = s.n * groups, taps = w.taps();
  const Shape x = c.shape(0);
  Graph& g = c.g;
  // 16 bits do not tell places apart.
  const DType dtype = g.type(c.x(0)).dtype, wide = is_half(dtype) ? DType::kF32 : dtype;
  const Places places = places_of(c, w, wide);
  const ValueId offset =
      reshape(g, cast(g, c.x(2), wide), Shape{images, taps, 2, w.out[0], w.out[1]});
  // Down comes first in ONNX's offsets, across in the grid.
  const ValueId last = g.add1("Transpose", {offset}, {{"perm", Ints{0, 1, 3, 4, 2}}});
  const ValueId turned =
      g.add1("Gather", {last, g.add_constant("", Ints{1, 0})}, {{"axis", int64_t{-1}}});
  const ValueId grid = g.add1("Add", {g.add1("Mul", {turned, places.step}), places.at});
  const ValueId flat = reshape(g, grid, Shape{images, taps * w.out[0], w.out[1], 2});
  ValueId plane = reshape(g, c.x(0), Shape{images, x[1] / groups, x[2], x[3]});
  // GridSample's coordinates run over the distance of two places at least.
  if (x[2] == 1 || x[3] == 1) {
    const Ints more = {0, 0, 0, 0, 0, 0, x[2] == 1 ? 1 : 0, x[3] == 1 ? 1 : 0};
    plane = g.add1("Pad", {plane, g.add_constant("", more)});
  }
  return g.add1("GridSample", {plane, flat}, {{"align_corners", int64_t{1}}});
}

std::vector<ValueId> compose(ComposeContext& c) {
  const ConvShape s = conv_shape(c.node.attrs, c.shape(0), c.shape(1));
  const int64_t groups = c.node.attrs.i("offset_group"), taps = s.window.taps();
  const int64_t channels = c.shape(0)[1], out = s.window.out_count();
  Graph& g = c.g;
  ValueId columns = sampled_columns(c, s);
  if (c.has(4)) {
    columns = reshape(g, columns, Shape{s.n, groups, channels / groups, taps, out});
    const ValueId mask = reshape(g, c.x(4), Shape{s.n, groups, 1, taps, out});
    columns = g.add1("Mul", {columns, mask});
  }
  columns = reshape(g, columns, Shape{s.n, s.groups, s.in_channels * taps, out});
  const ValueId weight = reshape(g, c.x(1), Shape{s.groups, s.out_channels, s.in_channels * taps});
  const Shape shape = c.out_shape();
  const ValueId y = reshape(g, g.add1("MatMul", {weight, columns}), shape);
  if (!c.has(3)) return {y};
  return {g.add1("Add", {y, reshape(g, c.x(3), Shape{shape[1], 1, 1})})};
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  return conv_shape(a, in[0].shape, in[1].shape).terms();
}

std::vector<Example> examples() {
  using E = ExampleInput;
  const E moved = E::range({1, 8, 2, 2}, -1.5, 1.5), mask = E::range({1, 4, 2, 2}, 0, 1);
  return {{{{1, 1, 3, 3}, {1, 1, 2, 2}, moved}},
          {{{1, 1, 3, 3}, {2, 1, 2, 2}, moved, {2}, mask}},
          {{{1, 1, 3, 3}, {1, 1, 2, 2}, moved, E::absent(), mask}},
          {{{1, 1, 1, 3}, {1, 1, 1, 2}, E::range({1, 4, 1, 2}, -0.8, 0.8)}},
          {{{2, 4, 5, 5}, {4, 2, 3, 3}, E::range({2, 36, 3, 3}, -1, 1)},
           {{"group", int64_t{2}},
            {"offset_group", int64_t{2}},
            {"strides", Ints{2, 2}},
            {"pads", Ints{1, 1, 1, 1}}}}};
}

}  // namespace

std::vector<OpDef> deform_conv_ops() {
  return {{.name = "DeformConv",
           .facts = {.onnx = 19, .onnx_later = kBf16Since22, .rank = RankRule::kFirst},
           .min_inputs = 3,
           .max_inputs = 5,
           .attrs = conv_attrs({{"offset_group", Kind::kInt, Attr(int64_t{1})}}),
           .complete = complete_conv,
           .infer = infer,
           .reference = reference,
           .terms = terms,
           .compose = compose,
           .examples = examples()}};
}

}  // namespace ndtrain
