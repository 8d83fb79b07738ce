// RoiAlign: each region of interest [x1, y1, x2, y2] of image batch_indices[r] as output_height x
// output_width bins, of which each is the mean (or the largest) of points interpolated in it (He et
// al., Mask R-CNN, 2017). Differentiable by x and by the regions, whose number of points is taken
// as given.
#include <array>

#include "framework/ops/common.h"

namespace ndtrain {
namespace {

using Kind = AttrSpec::Kind;

constexpr int64_t kMostPoints = 10000;  // along a side of a bin

void infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  require_same_dtype(c, 0, 1);
  require(c, 2, is_index, "i32 or i64");
  const Shape &x = c.shape(0), &rois = c.shape(1);
  if (x.rank() != 4 || rois.rank() != 2 || rois[1] != 4 || c.shape(2) != Shape{rois[0]}) {
    throw Error("x is ", c.in[0], ", rois ", c.in[1], " and batch_indices ", c.in[2],
                ", must be [N, C, H, W], [R, 4] and [R]");
  }
  const std::string &mode = c.attrs.s("mode"), &where = c.attrs.s("coordinate_transformation_mode");
  if (mode != "avg" && mode != "max") throw Error("mode is '", mode, "', must be avg or max");
  if (where != "half_pixel" && where != "output_half_pixel") {
    throw Error("coordinate_transformation_mode is '", where,
                "', must be half_pixel or output_half_pixel");
  }
  const int64_t height = c.attrs.i("output_height"), width = c.attrs.i("output_width");
  const int64_t ratio = c.attrs.i("sampling_ratio");
  if (height < 1 || width < 1 || ratio < 0 || ratio > kMostPoints) {
    throw Error("output_height ", height, ", output_width ", width, " or sampling_ratio ", ratio,
                " is too small or too large");
  }
  c.out = {{c.in[0].dtype, {rois[0], x[1], height, width}}};
}

// The two places around a coordinate and the weight of the second; none outside the image.
struct Between {
  bool inside = false, moves = false;  // moves: the weight follows the coordinate
  int64_t low = 0, high = 0;
  double ratio = 0;

  double weight(bool of_high) const { return of_high ? ratio : 1 - ratio; }
  double slope(bool of_high) const { return moves ? (of_high ? 1 : -1) : 0; }
};

Between between(double at, int64_t n) {
  if (!(at >= -1 && at <= static_cast<double>(n))) return {};
  const bool moves = at > 0;
  at = std::max(at, 0.0);
  const auto low = static_cast<int64_t>(at);
  if (low >= n - 1) return {true, false, n - 1, n - 1, 0};
  return {true, moves, low, low + 1, at - static_cast<double>(low)};
}

// One side of a region: where it begins, how large a bin is, and the points in each.
struct Side {
  double begin, bin;
  int64_t points;
  double begin_slope, bin_slope;  // of begin and of bin, by the region's first end and its length
};

Side side_of(const Attrs& a, double first, double last, int64_t bins) {
  const double scale = a.f("spatial_scale"), n = static_cast<double>(bins);
  const bool half = a.s("coordinate_transformation_mode") == "half_pixel";
  const double begin = first * scale - (half ? 0.5 : 0);
  double length = (last - first) * scale;
  const bool widened = !half && length < 1;
  if (widened) length = 1;
  const double bin = length / n;
  const int64_t ratio = a.i("sampling_ratio");
  if (!(std::abs(bin) < static_cast<double>(kMostPoints)))
    throw Error("a region is ", length, " wide");
  return {begin, bin, ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(bin)), scale,
          widened ? 0 : scale / n};
}

// A point of a bin along one side, and its slopes by the region's two ends.
struct Point {
  Between place;
  double by_first, by_last;
};

std::vector<Point> points_of(const Side& s, int64_t bin, int64_t n) {
  std::vector<Point> points;
  for (int64_t i = 0; i < s.points; ++i) {
    const double bins =
        static_cast<double>(bin) + (static_cast<double>(i) + 0.5) / static_cast<double>(s.points);
    const double by_last = bins * s.bin_slope;
    points.push_back({between(s.begin + bins * s.bin, n), s.begin_slope - by_last, by_last});
  }
  return points;
}

// A neighbour of a point: a place of the plane, its weight, and the weight's slopes by the region's
// x1, y1, x2 and y2. Of a point outside the image all are 0.
struct Tap {
  int64_t place = 0;
  double weight = 0;
  std::array<double, 4> slopes{};
};

// Those of a bin, four to a point.
struct Bin {
  std::vector<Tap> taps;

  void add(const Point& y, const Point& x, int64_t columns) {
    if (!y.place.inside || !x.place.inside) return taps.resize(taps.size() + 4);
    for (const bool down : {false, true}) {
      for (const bool right : {false, true}) {
        const double wy = y.place.weight(down), wx = x.place.weight(right);
        const double sy = y.place.slope(down) * wx, sx = x.place.slope(right) * wy;
        taps.push_back(
            {(down ? y.place.high : y.place.low) * columns + (right ? x.place.high : x.place.low),
             wy * wx,
             {sx * x.by_first, sy * y.by_first, sx * x.by_last, sy * y.by_last}});
      }
    }
  }

  double mean(const double* plane) const {
    double sum = 0;
    for (const Tap& t : taps) sum += t.weight * plane[t.place];
    return sum / points();
  }
  // ONNX's largest is of the weighted neighbours of every point. Null: there are none.
  const Tap* largest(const double* plane) const {
    const auto value = [&](const Tap& t) { return t.weight * plane[t.place]; };
    const auto at = std::ranges::max_element(taps, {}, value);
    return at == taps.end() ? nullptr : &*at;
  }
  double points() const { return std::max(1.0, static_cast<double>(taps.size()) / 4); }
};

// Calls f(region, its image, bin's number, Bin) for every bin of an output y.
template <typename F>
void for_each_bin(const Attrs& a, const Shape& x, const Shape& y, const std::vector<double>& rois,
                  const std::vector<double>& images, F f) {
  for (int64_t r = 0; r < y[0]; ++r) {
    const double* roi = rois.data() + 4 * r;
    const auto image = static_cast<int64_t>(images[static_cast<size_t>(r)]);
    if (image < 0 || image >= x[0]) throw Error("batch index ", image, " of ", x[0], " images");
    const Side down = side_of(a, roi[1], roi[3], y[2]), across = side_of(a, roi[0], roi[2], y[3]);
    for (int64_t b = 0; b < y[2] * y[3]; ++b) {
      Bin bin;
      const std::vector<Point> xs = points_of(across, b % y[3], x[3]);
      for (const Point& p : points_of(down, b / y[3], x[2])) {
        for (const Point& q : xs) bin.add(p, q, x[3]);
      }
      f(r, image, b, bin);
    }
  }
}

void reference(const ReferenceContext& c) {
  const Shape &x = c.shape(0), &y = c.out_shape();
  const bool largest = c.attrs.s("mode") == "max";
  for_each_bin(c.attrs, x, y, c.in[1], c.in[2],
               [&](int64_t r, int64_t image, int64_t b, const Bin& bin) {
                 for (int64_t k = 0; k < x[1]; ++k) {
                   const double* plane = c.in[0].data() + (image * x[1] + k) * x[2] * x[3];
                   double& to = c.out[0][(r * x[1] + k) * y[2] * y[3] + b];
                   const Tap* top = largest ? bin.largest(plane) : nullptr;
                   to = !largest ? bin.mean(plane) : top ? top->weight * plane[top->place] : 0;
                 }
               });
}

std::vector<ValueId> gradient(GradientContext& c) {
  std::vector<ValueId> dx =
      c.g.add("RoiAlignGrad", {c.dy[0], c.x(0), c.x(1), c.x(2)}, c.node.attrs, 2);
  dx.push_back(kNone);
  return dx;
}

// in: dy, x, rois, batch_indices.
void grad_infer(InferContext& c) {
  require(c, 1, is_float, "a float dtype");
  require_same_dtype(c, 0, 1);
  require_same_dtype(c, 0, 2);
  const Shape &x = c.shape(1), &rois = c.shape(2);
  const Shape y{rois[0], x[1], c.attrs.i("output_height"), c.attrs.i("output_width")};
  if (c.shape(0) != y) throw Error("dy is ", c.in[0], ", must be ", y);
  c.out = {c.in[1], c.in[2]};
}

void grad_reference(const ReferenceContext& c) {
  const Shape &y = c.shape(0), &x = c.shape(1);
  const bool largest = c.attrs.s("mode") == "max";
  const auto walk = [&](int64_t r, int64_t image, int64_t b, const Bin& bin) {
    for (int64_t k = 0; k < x[1]; ++k) {
      const int64_t first = (image * x[1] + k) * x[2] * x[3];
      const double* plane = c.in[1].data() + first;
      const double dy = c.in[0][(r * x[1] + k) * y[2] * y[3] + b];
      const auto add = [&](const Tap& t, double by) {
        c.out[0][first + t.place] += t.weight * by;
        for (int64_t i = 0; i < 4; ++i) {
          c.out[1][4 * r + i] += t.slopes[static_cast<size_t>(i)] * plane[t.place] * by;
        }
      };
      if (!largest) {
        for (const Tap& t : bin.taps) add(t, dy / bin.points());
      } else if (const Tap* top = bin.largest(plane)) {
        add(*top, dy);
      }
    }
  };
  for_each_bin(c.attrs, x, y, c.in[2], c.in[3], walk);
}

// No point lies where its gradient does not exist.
std::vector<Example> examples() {
  using E = ExampleInput;
  const E rois = E::given(DType::kF32, {3, 4},
                          {0.1, 0.05, 4.2, 3.15, 1.2, 0.4, 3.1, 2.7, -3.1, 1.1, 9.2, 2.05});
  const E images = E::given(DType::kI64, {3}, {0, 1, 1});
  const E x{2, 2, 4, 5};
  const auto to = [](int64_t h, int64_t w) {
    return Attrs{{"output_height", h}, {"output_width", w}};
  };
  Attrs old = to(2, 3), largest = to(2, 2), scaled = to(1, 2);
  old.set("coordinate_transformation_mode", "output_half_pixel");
  largest.set("mode", "max");
  scaled.set("spatial_scale", 0.5);
  scaled.set("sampling_ratio", int64_t{2});
  return {{{x, rois, images}, to(2, 2)},
          {{x, rois, images}, old},
          {{x, rois, images}, largest},
          {{x, rois, images}, scaled}};
}

std::vector<Example> grad_examples() {
  std::vector<Example> list;
  for (const Example& e : examples()) {
    const Shape &x = e.inputs[0].type.shape, &rois = e.inputs[1].type.shape;
    const Shape y{rois[0], x[1], e.attrs.i("output_height"), e.attrs.i("output_width")};
    list.push_back({{y, e.inputs[0], e.inputs[1], e.inputs[2]}, e.attrs, 2});
  }
  return list;
}

}  // namespace

std::vector<OpDef> roi_align_ops() {
  const std::vector<AttrSpec> attrs = {
      {"coordinate_transformation_mode", Kind::kString, Attr("half_pixel")},
      {"mode", Kind::kString, Attr("avg")},
      {"output_height", Kind::kInt, Attr(int64_t{1})},
      {"output_width", Kind::kInt, Attr(int64_t{1})},
      {"sampling_ratio", Kind::kInt, Attr(int64_t{0})},
      {"spatial_scale", Kind::kFloat, Attr(1.0)}};
  return {{.name = "RoiAlign",
           .facts = {.onnx = 10, .onnx_later = kBf16Since22},
           .min_inputs = 3,
           .max_inputs = 3,
           .attrs = attrs,
           .infer = infer,
           .reference = reference,
           .gradient = gradient,
           .by_reference = true,
           .examples = examples()},
          {.name = "RoiAlignGrad",
           .min_inputs = 4,
           .max_inputs = 4,
           .min_outputs = 2,
           .max_outputs = 2,
           .attrs = attrs,
           .infer = grad_infer,
           .reference = grad_reference,
           .by_reference = true,
           .examples = grad_examples()}};
}

}  // namespace ndtrain
