// RoiAlign: each region of interest [x1, y1, x2, y2] of image batch_indices[r] as output_height x
// output_width bins, of which each is the mean (or the largest) of points interpolated in it (He et
// al., Mask R-CNN, 2017).
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
  bool inside = false;
  int64_t low = 0, high = 0;
  double ratio = 0;
};

Between between(double at, int64_t n) {
  if (!(at >= -1 && at <= static_cast<double>(n))) return {};
  at = std::max(at, 0.0);
  const auto low = static_cast<int64_t>(at);
  if (low >= n - 1) return {true, n - 1, n - 1, 0};
  return {true, low, low + 1, at - static_cast<double>(low)};
}

// One side of a region: where it begins, how large a bin is, and the points in each.
struct Side {
  double begin, bin;
  int64_t points;

  double point(int64_t b, int64_t i) const {
    return begin + static_cast<double>(b) * bin +
           (static_cast<double>(i) + 0.5) * bin / static_cast<double>(points);
  }
};

Side side_of(const Attrs& a, double first, double last, int64_t bins) {
  const double scale = a.f("spatial_scale");
  const bool half = a.s("coordinate_transformation_mode") == "half_pixel";
  const double begin = first * scale - (half ? 0.5 : 0);
  double length = (last - first) * scale;
  if (!half) length = std::max(length, 1.0);
  const double bin = length / static_cast<double>(bins);
  const int64_t ratio = a.i("sampling_ratio");
  if (!(std::abs(bin) < static_cast<double>(kMostPoints)))
    throw Error("a region is ", length, " wide");
  return {begin, bin, ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(bin))};
}

// ONNX's largest is of the four weighted neighbours of every point.
double bin_of(const double* plane, int64_t columns, const std::vector<Between>& ys,
              const std::vector<Between>& xs, bool largest) {
  double sum = 0, top = 0;
  bool first = true;
  for (const Between& y : ys) {
    for (const Between& x : xs) {
      std::array<double, 4> v{};
      if (y.inside && x.inside) {
        v = {(1 - y.ratio) * (1 - x.ratio) * plane[y.low * columns + x.low],
             (1 - y.ratio) * x.ratio * plane[y.low * columns + x.high],
             y.ratio * (1 - x.ratio) * plane[y.high * columns + x.low],
             y.ratio * x.ratio * plane[y.high * columns + x.high]};
      }
      sum += v[0] + v[1] + v[2] + v[3];
      const double here = std::ranges::max(v);
      top = first ? here : std::max(top, here);
      first = false;
    }
  }
  const size_t points = std::max<size_t>(1, ys.size() * xs.size());
  return largest ? top : sum / static_cast<double>(points);
}

std::vector<Between> points_of(const Side& s, int64_t bin, int64_t n) {
  std::vector<Between> points;
  for (int64_t i = 0; i < s.points; ++i) points.push_back(between(s.point(bin, i), n));
  return points;
}

void reference(const ReferenceContext& c) {
  const Shape &x = c.shape(0), &y = c.out_shape();
  const bool largest = c.attrs.s("mode") == "max";
  for (int64_t r = 0; r < y[0]; ++r) {
    const double* roi = c.in[1].data() + 4 * r;
    const auto image = static_cast<int64_t>(c.in[2][static_cast<size_t>(r)]);
    if (image < 0 || image >= x[0]) throw Error("batch index ", image, " of ", x[0], " images");
    const Side down = side_of(c.attrs, roi[1], roi[3], y[2]);
    const Side across = side_of(c.attrs, roi[0], roi[2], y[3]);
    for (int64_t bin = 0; bin < y[2] * y[3]; ++bin) {
      const std::vector<Between> ys = points_of(down, bin / y[3], x[2]),
                                 xs = points_of(across, bin % y[3], x[3]);
      for (int64_t k = 0; k < x[1]; ++k) {
        const double* plane = c.in[0].data() + (image * x[1] + k) * x[2] * x[3];
        c.out[0][(r * x[1] + k) * y[2] * y[3] + bin] = bin_of(plane, x[3], ys, xs, largest);
      }
    }
  }
}

std::vector<Example> examples() {
  using E = ExampleInput;
  const E rois = E::given(DType::kF32, {3, 4}, {0, 0, 4, 3, 1.2, 0.4, 3.1, 2.7, -3, 1, 9, 2});
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

}  // namespace

std::vector<OpDef> roi_align_ops() {
  return {{.name = "RoiAlign",
           .facts = {.onnx = 10, .onnx_later = kBf16Since22},
           .min_inputs = 3,
           .max_inputs = 3,
           .attrs = {{"coordinate_transformation_mode", Kind::kString, Attr("half_pixel")},
                     {"mode", Kind::kString, Attr("avg")},
                     {"output_height", Kind::kInt, Attr(int64_t{1})},
                     {"output_width", Kind::kInt, Attr(int64_t{1})},
                     {"sampling_ratio", Kind::kInt, Attr(int64_t{0})},
                     {"spatial_scale", Kind::kFloat, Attr(1.0)}},
           .infer = infer,
           .reference = reference,
           .by_reference = true,
           .examples = examples()}};
}

}  // namespace ndtrain
