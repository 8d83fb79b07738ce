#include "framework/ops/resize_taps.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ndtrain {
namespace {

constexpr int64_t kMostPlaces = int64_t{1} << 24;  // of a resized axis, and its weights in all

// Where place `o` of the output lies in the input.
double source_of(const std::string& mode, const ResizedAxis& a, double o) {
  const auto in = static_cast<double>(a.in), out = static_cast<double>(a.out);
  const double width = a.scale * in;  // before it was rounded to a number of places
  if (mode == "align_corners") return width == 1 ? 0 : o * (in - 1) / (width - 1);
  if (mode == "asymmetric") return o / a.scale;
  if (mode == "pytorch_half_pixel" && width == 1) return -0.5;
  if (mode == "tf_half_pixel_for_nn") return (o + 0.5) / a.scale;
  if (mode == "tf_crop_and_resize") {
    const double length = (a.roi_end - a.roi_begin) * (in - 1);
    return a.roi_begin * (in - 1) + (width == 1 ? length / 2 : o * length / (width - 1));
  }
  const double half_pixel = (o + 0.5) / a.scale - 0.5;
  return mode == "half_pixel_symmetric" ? half_pixel + in / 2 * (1 - out / width) : half_pixel;
}

// Keys' kernel (1981), `a` its slope at 1.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

// The nearest of places `below` and the one behind it, which is the place itself at ratio 1.
int64_t nearest(const std::string& mode, int64_t below, double ratio) {
  if (ratio == 1 || mode == "ceil") return below + 1;
  if (mode == "floor") return below;
  const bool lower = mode == "round_prefer_ceil" ? ratio < 0.5 : ratio <= 0.5;
  return lower ? below : below + 1;
}

// The weights of the places from `first` on, of which `below` is 0.
struct Kernel {
  int64_t first = 0, taps = 1;
  bool is_cubic = false, normalised = false;
  double stretch = 1, a = 0;  // stretched where places are left out

  double at(int64_t k, double ratio) const {
    const double x = (static_cast<double>(first + k) - ratio) * stretch;
    return is_cubic ? cubic(x, a) : triangle(x);
  }
};

Kernel kernel_of(const Attrs& attrs, double scale) {
  Kernel k;
  k.is_cubic = attrs.s("mode") == "cubic";
  k.a = attrs.f("cubic_coeff_a");
  k.normalised = attrs.flag("antialias");
  const double reach = k.is_cubic ? 2 : 1;
  if (k.normalised) k.stretch = std::min(scale, 1.0);
  k.first = static_cast<int64_t>(std::floor(-reach / k.stretch)) + 1;
  k.taps = 2 - 2 * k.first;
  return k;
}

void normalise_taps(double* weights, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) sum += weights[k];
  for (int64_t k = 0; k < n; ++k) weights[k] /= sum;
}

bool is_one_of(const std::string& value, std::initializer_list<const char*> all) {
  return std::ranges::any_of(all, [&](const char* v) { return value == v; });
}

void check_attributes(const Attrs& a) {
  const std::string& mode = a.s("mode");
  if (!is_one_of(mode, {"nearest", "linear", "cubic"})) {
    throw Error("mode is '", mode, "', must be nearest, linear or cubic");
  }
  const std::string& where = a.s("coordinate_transformation_mode");
  if (!is_one_of(where, {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric",
                         "align_corners", "tf_crop_and_resize", "tf_half_pixel_for_nn"})) {
    throw Error("coordinate_transformation_mode is '", where, "', which ONNX does not have");
  }
  const std::string& nearest_mode = a.s("nearest_mode");
  if (!is_one_of(nearest_mode, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})) {
    throw Error("nearest_mode is '", nearest_mode, "', which ONNX does not have");
  }
  const std::string& policy = a.s("keep_aspect_ratio_policy");
  if (!is_one_of(policy, {"stretch", "not_larger", "not_smaller"})) {
    throw Error("keep_aspect_ratio_policy is '", policy, "', which ONNX does not have");
  }
  if (mode == "nearest" && a.flag("antialias")) throw Error("mode nearest has no antialias");
}

// Both extents, from scales or sizes: one number for each axis.
void take_extents(const Attrs& a, std::vector<ResizedAxis>& axes, const std::vector<double>& scales,
                  const Ints& sizes) {
  const size_t given = scales.empty() ? sizes.size() : scales.size();
  if (given != axes.size() || (!scales.empty() && !sizes.empty())) {
    throw Error(scales.size(), " scales and ", sizes.size(), " sizes are given, must be ",
                axes.size(), " of one of them");
  }
  const std::string& policy = a.s("keep_aspect_ratio_policy");
  double common = policy == "not_larger" ? std::numeric_limits<double>::infinity() : 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis& r = axes[i];
    if (!scales.empty()) {
      const bool is_one = scales[i] > 1e-9 && scales[i] < 1e9;
      if (!is_one) throw Error("a scale is ", scales[i]);
      r.scale = scales[i];
      // In f32, as the scale is: 0.7 of 10 is 7.
      const float extent = static_cast<float>(r.scale) * static_cast<float>(r.in);
      if (extent > kMostPlaces) throw Error("a scale of ", r.scale, " makes too much of ", r.in);
      r.out = static_cast<int64_t>(std::floor(extent));
      continue;
    }
    if (sizes[i] < 0 || sizes[i] > kMostPlaces) throw Error("a size is ", sizes[i]);
    r.out = sizes[i];
    r.scale = static_cast<double>(r.out) / static_cast<double>(std::max<int64_t>(1, r.in));
    common = policy == "not_larger" ? std::min(common, r.scale) : std::max(common, r.scale);
  }
  if (policy == "stretch" || sizes.empty()) return;
  for (ResizedAxis& r : axes) {
    r.scale = common;
    const double extent = std::floor(common * static_cast<double>(r.in) + 0.5);
    if (extent > kMostPlaces) throw Error("sizes make too much of ", r.in);
    r.out = static_cast<int64_t>(extent);
  }
}

}  // namespace

std::vector<ResizedAxis> resized_axes(const Attrs& a, const Shape& x,
                                      const std::vector<double>& roi,
                                      const std::vector<double>& scales, const Ints& sizes) {
  check_attributes(a);
  std::vector<ResizedAxis> axes;
  const auto add = [&](int64_t axis) {
    const int d = x.axis(axis, "axes");
    if (std::ranges::any_of(axes, [&](const ResizedAxis& r) { return r.axis == d; })) {
      throw Error("axes name dim ", d, " twice");
    }
    axes.push_back({.axis = d, .in = x[d]});
  };
  const Ints named = a.has("axes") ? a.ints("axes") : Ints{};
  for (const int64_t axis : named) add(axis);
  for (int d = 0; d < x.rank() && named.empty(); ++d) add(d);
  take_extents(a, axes, scales, sizes);
  const bool crops = a.s("coordinate_transformation_mode") == "tf_crop_and_resize";
  if (crops && roi.size() != 2 * axes.size()) {
    throw Error("roi has ", roi.size(), " numbers, must be ", 2 * axes.size());
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis& r = axes[i];
    if (crops) {
      r.roi_begin = roi[i];
      r.roi_end = roi[i + axes.size()];
    }
    if (r.in == 0 && r.out != 0) throw Error("dim ", r.axis, " of ", x, " is empty");
    r.changes = r.out != r.in || r.scale != 1 || r.roi_begin != 0 || r.roi_end != 1;
  }
  return axes;
}

ResizeTaps resize_taps(const Attrs& a, const ResizedAxis& axis) {
  const std::string& where = a.s("coordinate_transformation_mode");
  const bool is_nearest = a.s("mode") == "nearest";
  const Kernel kernel = is_nearest ? Kernel{} : kernel_of(a, axis.scale);
  if (axis.changes && axis.out > kMostPlaces / kernel.taps) {
    throw Error(axis.out, " places of ", kernel.taps, " weights each are too many");
  }
  ResizeTaps t{.taps = kernel.taps};
  const auto last = static_cast<double>(axis.in - 1);
  for (int64_t o = 0; o < axis.out; ++o) {
    const double x = source_of(where, axis, static_cast<double>(o));
    const bool outside = where == "tf_crop_and_resize" && (x < 0 || x > last);
    t.outside.push_back(outside);
    t.any_outside |= outside;
    // A place that is met exactly is the upper one, at ratio 1.
    const auto below = static_cast<int64_t>(std::ceil(x)) - 1;
    const double ratio = x - static_cast<double>(below);
    const auto clamped = [&](int64_t i) { return std::clamp<int64_t>(i, 0, axis.in - 1); };
    if (is_nearest) {
      t.from.push_back(clamped(nearest(a.s("nearest_mode"), below, ratio)));
      t.weights.push_back(1);
      continue;
    }
    const size_t row = t.weights.size();
    for (int64_t k = 0; k < kernel.taps; ++k) {
      const int64_t i = below + kernel.first + k;
      const bool left_out = a.flag("exclude_outside") && i != clamped(i);
      t.from.push_back(clamped(i));
      t.weights.push_back(left_out ? 0 : kernel.at(k, ratio));
    }
    const bool normalised = kernel.normalised || a.flag("exclude_outside");
    if (normalised) normalise_taps(t.weights.data() + row, kernel.taps);
  }
  return t;
}

}  // namespace ndtrain
