// GridSample: a few points of the grid at a time have their places and weights worked out, in
// double; every channel then sums them.
#include <array>
#include <cmath>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/numbers.h"

namespace ndtrain::cpu {
namespace {

constexpr int kDims = 3, kTaps = 4, kPlaces = 64;  // of a point: kTaps to the power of kDims
constexpr int64_t kTogether = 16;

enum class Mode { kNearest, kLinear, kCubic };
enum class Padding { kZeros, kBorder, kReflection };

// Places along one dim around a point.
struct Taps {
  int64_t n = 0;
  std::array<int64_t, kTaps> from{};
  std::array<double, kTaps> weights{};

  void add(int64_t i, double weight) {
    from[n] = i;
    weights[n++] = weight;
  }
};

template <typename W>
struct Point {
  int64_t n = 0;
  std::array<int64_t, kPlaces> at;
  std::array<W, kPlaces> weights;
};

struct GridSampling {
  int dims;
  int64_t extents[kDims] = {}, images, channels, in = 1, out;
  Mode mode = Mode::kLinear;
  Padding padding = Padding::kZeros;
  bool align;
  ndt_dtype grid;

  explicit GridSampling(const Node& node) : dims(node.in(0).rank - 2) {
    const ndt_tensor_type &x = node.in(0), &g = node.in(1);
    if (dims < 1 || dims > kDims || g.rank != x.rank) unsupported("samples images or volumes");
    images = x.dims[0];
    channels = x.dims[1];
    for (int d = 0; d < dims; ++d) in *= extents[d] = x.dims[d + 2];
    out = count(g, 1, g.rank - 1);
    const std::string_view how = node.s("mode"), pad = node.s("padding_mode");
    if (how != "linear") mode = how == "cubic" ? Mode::kCubic : Mode::kNearest;
    if (pad != "zeros") padding = pad == "border" ? Padding::kBorder : Padding::kReflection;
    align = node.i("align_corners") != 0;
    grid = g.dtype;
  }

  // Mirrored at both ends as often as needed.
  double reflected(double at, int64_t n) const {
    const double low = align ? 0 : -0.5, high = static_cast<double>(n) - (align ? 1 : 0.5);
    const double range = high - low;
    if (range <= 0) return low;
    const bool below = at < low;
    if (!below && at <= high) return at;
    const double beyond = below ? low - at : at - high, turns = std::floor(beyond / range);
    const double rest = beyond - turns * range;
    return below == (std::fmod(turns, 2) == 0) ? low + rest : high - rest;
  }

  double coordinate(double at, int64_t n) const {
    const auto extent = static_cast<double>(n);
    double c = align ? (at + 1) / 2 * (extent - 1) : ((at + 1) * extent - 1) / 2;
    if (mode == Mode::kNearest) c = std::nearbyint(c);
    if (padding == Padding::kBorder) c = std::min(std::max(c, 0.0), extent - 1);
    return padding == Padding::kReflection ? reflected(c, n) : c;
  }

  Taps taps(double at, int64_t n) const {
    Taps t;
    const double c = coordinate(at, n);
    if (!(std::abs(c) < 1e9)) return t;  // no number, or far away
    const auto below = static_cast<int64_t>(std::floor(c));
    const double ratio = c - static_cast<double>(below);
    if (mode == Mode::kNearest) {
      add(t, static_cast<int64_t>(c), 1, n);
    } else if (mode == Mode::kLinear) {
      add(t, below, 1 - ratio, n);
      add(t, below + 1, ratio, n);
    } else {
      for (int k = -1; k <= 2; ++k) add(t, below + k, cubic(ratio - k), n);
    }
    return t;
  }

  void add(Taps& t, int64_t i, double weight, int64_t n) const {
    if (i < 0 || i >= n) {
      if (padding == Padding::kZeros) return;
      if (padding == Padding::kReflection)
        i = static_cast<int64_t>(reflected(static_cast<double>(i), n));
      i = std::clamp<int64_t>(i, 0, n - 1);
    }
    t.add(i, weight);
  }

  // Keys' kernel with a = -0.75.
  static double cubic(double x) {
    constexpr double kA = -0.75;
    x = std::abs(x);
    return x <= 1 ? ((kA + 2) * x - (kA + 3)) * x * x + 1
                  : ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA;
  }

  // Point i of the grid; its coordinates are the last dim's first.
  template <typename W>
  void place(const void* data, int64_t i, Point<W>& p) const {
    p.n = 1;
    p.at[0] = 0;
    std::array<double, kPlaces> weights{1};
    for (int d = 0; d < dims; ++d) {
      const Taps t = taps(number<double>(data, grid, i * dims + dims - 1 - d), extents[d]);
      // From behind, so that what is read is not yet written over.
      for (int64_t k = p.n - 1; k >= 0; --k) {
        const int64_t row = p.at[k] * extents[d];
        const double weight = weights[k];
        for (int64_t j = t.n - 1; j >= 0; --j) {
          p.at[k * t.n + j] = row + t.from[j];
          weights[k * t.n + j] = weight * t.weights[j];
        }
      }
      p.n *= t.n;
    }
    for (int64_t k = 0; k < p.n; ++k) p.weights[k] = static_cast<W>(weights[k]);
  }
};

template <typename T>
void sample(const GridSampling& s, const T* x, const void* grid, T* y, int64_t image,
            int64_t first) {
  using W = wide_t<T>;
  const int64_t n = std::min(kTogether, s.out - first);
  std::array<Point<W>, kTogether> points;
  for (int64_t p = 0; p < n; ++p) s.place(grid, image * s.out + first + p, points[p]);
  for (int64_t c = image * s.channels; c < (image + 1) * s.channels; ++c) {
    const T* plane = x + c * s.in;
    for (int64_t p = 0; p < n; ++p) {
      const Point<W>& point = points[p];
      W sum{};
      for (int64_t k = 0; k < point.n; ++k) sum += point.weights[k] * widen(plane[point.at[k]]);
      y[c * s.out + first + p] = static_cast<T>(sum);
    }
  }
}

template <typename T>
std::unique_ptr<Kernel> sampling(const GridSampling& s) {
  return kernel([s](const void* const* in, void* const* out, void*) {
    const int64_t pieces = (s.out + kTogether - 1) / kTogether;
    const int64_t grain = std::max<int64_t>(1, kElementGrain / (8 * kTogether * (s.channels + 8)));
    parallel_for(s.images * pieces, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        sample(s, as<T>(in[0]), in[1], as<T>(out[0]), i / pieces, i % pieces * kTogether);
      }
    });
  });
}

std::unique_ptr<Kernel> grid_sample_kernel(const Node& node) {
  const GridSampling s(node);
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() { return sampling<T>(s); });
}

const Registered registered{{"GridSample", grid_sample_kernel}};

}  // namespace
}  // namespace ndtrain::cpu
