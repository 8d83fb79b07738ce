// GridSample: y[n, c, o…] = x[n, c] at the place grid[n, o…], whose coordinates are the last dim of
// x first and run from -1 to 1, interpolated among the places around it (Jaderberg et al., 2015).
// GridSampleGrad gives dx and dgrid; a coordinate that was moved to the border has none.
#include <functional>

#include "framework/ops/common.h"
#include "framework/ops/spatial.h"

namespace ndtrain {
namespace {

using Kind = AttrSpec::Kind;

enum class Padding { kZeros, kBorder, kReflection };

struct Sampling {
  std::string mode;
  Padding padding = Padding::kZeros;
  bool align = false;

  explicit Sampling(const Attrs& a) : mode(a.s("mode")), align(a.flag("align_corners")) {
    const std::string& p = a.s("padding_mode");
    if (mode != "nearest" && mode != "linear" && mode != "cubic") {
      throw Error("mode is '", mode, "', must be nearest, linear or cubic");
    }
    if (p != "zeros" && p != "border" && p != "reflection") {
      throw Error("padding_mode is '", p, "', must be zeros, border or reflection");
    }
    if (p != "zeros") padding = p == "border" ? Padding::kBorder : Padding::kReflection;
  }
};

// A coordinate along one dim, and its derivative by the grid's.
struct Coordinate {
  double at = 0, slope = 0;
};

// Within [low, high], mirrored at both as often as needed.
Coordinate reflected(Coordinate c, double low, double high) {
  const double range = high - low;
  if (range <= 0) return {low, 0};
  const bool below = c.at < low;
  if (!below && c.at <= high) return c;
  const double beyond = below ? low - c.at : c.at - high;
  const double turns = std::floor(beyond / range), rest = beyond - turns * range;
  const bool even = std::fmod(turns, 2) == 0;
  const double slope = even ? -c.slope : c.slope;
  return {below == even ? low + rest : high - rest, slope};
}

Coordinate reflected_within(const Sampling& s, Coordinate c, int64_t n) {
  const double last = static_cast<double>(n) - 1;
  return s.align ? reflected(c, 0, last) : reflected(c, -0.5, last + 0.5);
}

Coordinate coordinate_of(const Sampling& s, double grid, int64_t n) {
  const auto extent = static_cast<double>(n);
  Coordinate c = s.align ? Coordinate{(grid + 1) / 2 * (extent - 1), (extent - 1) / 2}
                         : Coordinate{((grid + 1) * extent - 1) / 2, extent / 2};
  if (s.mode == "nearest") c = {std::nearbyint(c.at), 0};
  if (s.padding == Padding::kBorder && (c.at < 0 || c.at > extent - 1)) {
    c = {std::clamp(c.at, 0.0, extent - 1), 0};
  }
  if (s.padding == Padding::kReflection) c = reflected_within(s, c, n);
  return c;
}

// A place along one dim (-1: outside, where x is 0), its weight, and the weight's derivative.
struct Tap {
  int64_t from;
  double weight, slope;
};

// Keys' kernel with a = -0.75, and its derivative.
Tap cubic_tap(int64_t from, double x) {
  constexpr double kA = -0.75;
  const double t = std::abs(x), sign = x < 0 ? -1 : 1;
  if (t <= 1) {
    return {from, ((kA + 2) * t - (kA + 3)) * t * t + 1,
            sign * (3 * (kA + 2) * t - 2 * (kA + 3)) * t};
  }
  return {from, ((kA * t - 5 * kA) * t + 8 * kA) * t - 4 * kA,
          sign * ((3 * kA * t - 10 * kA) * t + 8 * kA)};
}

std::vector<Tap> taps_of(const Sampling& s, Coordinate c, int64_t n) {
  std::vector<Tap> taps;
  // What is no number or far away is at no place.
  if (!(std::abs(c.at) < 1e9)) return {{-1, 0, 0}};
  const auto below = static_cast<int64_t>(std::floor(c.at));
  const double ratio = c.at - static_cast<double>(below);
  if (s.mode == "nearest") {
    taps = {{static_cast<int64_t>(c.at), 1, 0}};
  } else if (s.mode == "linear") {
    taps = {{below, 1 - ratio, -1}, {below + 1, ratio, 1}};
  } else {
    for (int64_t k = -1; k <= 2; ++k) {
      taps.push_back(cubic_tap(below + k, ratio - static_cast<double>(k)));
    }
  }
  for (Tap& t : taps) {
    t.slope *= c.slope;
    if (t.from >= 0 && t.from < n) continue;
    if (s.padding == Padding::kZeros) t.from = -1;
    if (s.padding == Padding::kBorder) t.from = std::clamp<int64_t>(t.from, 0, n - 1);
    if (s.padding == Padding::kReflection) {
      const Coordinate r = reflected_within(s, {static_cast<double>(t.from), 0}, n);
      t.from = std::clamp<int64_t>(static_cast<int64_t>(r.at), 0, n - 1);
    }
  }
  return taps;
}

struct Geometry {
  int dims;
  int64_t images, channels, in, out;  // of one plane
  Shape x;

  Geometry(const Shape& x_shape, const Shape& grid)
      : dims(x_shape.rank() - 2),
        images(x_shape[0]),
        channels(x_shape[1]),
        in(x_shape.count(2, x_shape.rank())),
        out(grid.count(1, grid.rank() - 1)),
        x(x_shape) {}
};

// Calls f(place in a plane, weight, derivative of the weight by each coordinate of the grid) for
// the places around one point of the grid.
void for_each_place(const Sampling& s, const Geometry& g, const double* point,
                    const std::function<void(int64_t, double, const double*)>& f) {
  std::vector<std::vector<Tap>> taps;
  for (int d = 0; d < g.dims; ++d) {
    const int64_t n = g.x[d + 2];
    taps.push_back(taps_of(s, coordinate_of(s, point[g.dims - 1 - d], n), n));
  }
  std::vector<size_t> at(taps.size(), 0);
  std::vector<double> slopes(taps.size());
  for (bool more = true; more;) {
    int64_t place = 0;
    double weight = 1;
    std::ranges::fill(slopes, 1.0);
    for (size_t d = 0; d < taps.size(); ++d) {
      const Tap& t = taps[d][at[d]];
      place = t.from < 0 || place < 0 ? -1 : place * g.x[static_cast<int>(d) + 2] + t.from;
      weight *= t.weight;
      for (size_t e = 0; e < taps.size(); ++e) {
        slopes[taps.size() - 1 - e] *= e == d ? t.slope : t.weight;
      }
    }
    if (place >= 0) f(place, weight, slopes.data());
    more = false;
    for (size_t d = taps.size(); d-- > 0 && !more;) {
      more = ++at[d] < taps[d].size();
      if (!more) at[d] = 0;
    }
  }
}

void check(const InferContext& c, size_t x, size_t grid) {
  require(c, x, is_float, "a float dtype");
  require(c, grid, is_float, "a float dtype");
  (void)Sampling(c.attrs);
  const Shape &in = c.shape(x), &at = c.shape(grid);
  if (in.rank() < 3 || at.rank() != in.rank() || at[0] != in[0] || at[-1] != in.rank() - 2) {
    throw Error("grid ", at, " does not fit ", in, ": expected [N, …, ", in.rank() - 2, "]");
  }
  for (int d = 2; d < in.rank(); ++d) {
    if (in[d] == 0) throw Error("input ", in, " has an empty spatial dim");
  }
}

Shape sampled(const Shape& x, const Shape& grid) {
  return shape_of_planes(x[0], x[1], Ints(grid.dims().begin() + 1, grid.dims().end() - 1));
}

void infer(InferContext& c) {
  check(c, 0, 1);
  c.out = {{c.in[0].dtype, sampled(c.shape(0), c.shape(1))}};
}

void reference(const ReferenceContext& c) {
  const Sampling s(c.attrs);
  const Geometry g(c.shape(0), c.shape(1));
  for (int64_t i = 0; i < g.images * g.out; ++i) {
    const int64_t first = i / g.out * g.channels, o = i % g.out;
    for_each_place(s, g, c.in[1].data() + i * g.dims, [&](int64_t p, double w, const double*) {
      for (int64_t k = first; k < first + g.channels; ++k) {
        c.out[0][k * g.out + o] += w * c.in[0][k * g.in + p];
      }
    });
  }
}

std::vector<ValueId> gradient(GradientContext& c) {
  return c.g.add("GridSampleGrad", {c.dy[0], c.x(0), c.x(1)}, c.node.attrs, 2);
}

// in: dy, x, grid.
void grad_infer(InferContext& c) {
  check(c, 1, 2);
  require_same_dtype(c, 0, 1);
  const Shape y = sampled(c.shape(1), c.shape(2));
  if (c.shape(0) != y) throw Error("dy is ", c.in[0], ", must be ", y);
  c.out = {c.in[1], c.in[2]};
}

void grad_reference(const ReferenceContext& c) {
  const Sampling s(c.attrs);
  const Geometry g(c.shape(1), c.shape(2));
  for (int64_t i = 0; i < g.images * g.out; ++i) {
    const int64_t first = i / g.out * g.channels, o = i % g.out;
    double* dgrid = c.out[1].data() + i * g.dims;
    for_each_place(s, g, c.in[2].data() + i * g.dims,
                   [&](int64_t p, double w, const double* slopes) {
                     for (int64_t k = first; k < first + g.channels; ++k) {
                       const double dy = c.in[0][k * g.out + o];
                       c.out[0][k * g.in + p] += w * dy;
                       for (int d = 0; d < g.dims; ++d) {
                         dgrid[d] += slopes[d] * dy * c.in[1][k * g.in + p];
                       }
                     }
                   });
  }
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  const int64_t along = a.s("mode") == "cubic" ? 4 : 2;
  int64_t places = 1;
  for (int d = 2; d < in[0].shape.rank(); ++d) places *= along;
  return places;
}

std::vector<Example> examples() {
  using E = ExampleInput;
  std::vector<Example> list;
  for (const char* mode : {"linear", "cubic", "nearest"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      Example e{{{2, 2, 3, 4}, E::range({2, 2, 3, 2}, -1.3, 1.3)},
                {{"mode", mode}, {"padding_mode", padding}}};
      list.push_back(e);
      e.attrs.set("align_corners", int64_t{1});
      list.push_back(std::move(e));
    }
  }
  list.push_back({{{1, 2, 3, 2, 4}, E::range({1, 2, 2, 2, 3}, -1.2, 1.2)}});
  list.push_back({{{DType::kF64, {1, 1, 3, 3}}, {DType::kF64, {1, 2, 2, 2}}}});
  list.push_back({{{2, 3, 5}, E::range({2, 40, 1}, -1, 1)}});
  return list;
}

std::vector<Example> grad_examples() {
  std::vector<Example> list;
  for (const Example& e : examples()) {
    const TensorType &x = e.inputs[0].type, &grid = e.inputs[1].type;
    list.push_back(
        {{{x.dtype, sampled(x.shape, grid.shape)}, e.inputs[0], e.inputs[1]}, e.attrs, 2});
  }
  return list;
}

}  // namespace

std::vector<OpDef> grid_sample_ops() {
  const std::vector<AttrSpec> attrs = {{"align_corners", Kind::kInt, Attr(int64_t{0})},
                                       {"mode", Kind::kString, Attr("linear")},
                                       {"padding_mode", Kind::kString, Attr("zeros")}};
  return {
      {.name = "GridSample",
       .facts = {.onnx = 16,
                 .onnx_later = kBf16Since22,
                 .rank = RankRule::kFirst,
                 .per_image = each_image},
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = attrs,
       .infer = infer,
       .reference = reference,
       .gradient = gradient,
       .terms = terms,
       .examples = examples()},
      {.name = "GridSampleGrad",
       .min_inputs = 3,
       .max_inputs = 3,
       .min_outputs = 2,
       .max_outputs = 2,
       .attrs = attrs,
       .infer = grad_infer,
       .reference = grad_reference,
       .by_reference = true,
       .examples = grad_examples()},
  };
}

}  // namespace ndtrain
