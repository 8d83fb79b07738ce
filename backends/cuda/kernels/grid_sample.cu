#include <type_traits>

#include "backends/cuda/kernels/grid.h"
#include "backends/cuda/kernels/grid_sample.h"

namespace ndtrain::cuda {
namespace {

constexpr int kTaps = 4;
constexpr int64_t kChannels = 16;  // that one thread sums with the weights it has worked out

// Places along one dim around a point.
struct Taps {
  int n = 0;
  int64_t from[kTaps];
  double weights[kTaps];
};

// Mirrored at both ends as often as needed.
NDT_DEVICE double reflected(bool align, double at, int64_t n) {
  const double low = align ? 0 : -0.5, high = static_cast<double>(n) - (align ? 1 : 0.5);
  const double range = high - low;
  if (range <= 0) return low;
  const bool below = at < low;
  if (!below && at <= high) return at;
  const double beyond = below ? low - at : at - high, turns = floor(beyond / range);
  const double rest = beyond - turns * range;
  return below == (fmod(turns, 2.0) == 0) ? low + rest : high - rest;
}

NDT_DEVICE double coordinate(const GridSampling& s, double at, int64_t n) {
  const auto extent = static_cast<double>(n);
  double c = s.align ? (at + 1) / 2 * (extent - 1) : ((at + 1) * extent - 1) / 2;
  if (s.mode == SampleMode::kNearest) c = nearbyint(c);
  if (s.padding == SamplePadding::kBorder) {
    if (c < 0) c = 0;
    if (c > extent - 1) c = extent - 1;
  }
  return s.padding == SamplePadding::kReflection ? reflected(s.align, c, n) : c;
}

// Keys' kernel with a = -0.75.
NDT_DEVICE double cubic(double x) {
  constexpr double kA = -0.75;
  x = x < 0 ? -x : x;
  return x <= 1 ? ((kA + 2) * x - (kA + 3)) * x * x + 1
                : ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA;
}

NDT_DEVICE void add(const GridSampling& s, Taps& t, int64_t i, double weight, int64_t n) {
  if (i < 0 || i >= n) {
    if (s.padding == SamplePadding::kZeros) return;
    if (s.padding == SamplePadding::kReflection) {
      i = static_cast<int64_t>(reflected(s.align, static_cast<double>(i), n));
    }
    i = i < 0 ? 0 : (i < n ? i : n - 1);
  }
  t.from[t.n] = i;
  t.weights[t.n++] = weight;
}

NDT_DEVICE Taps taps_of(const GridSampling& s, double at, int64_t n) {
  Taps t;
  const double c = coordinate(s, at, n);
  if (!(c > -1e9 && c < 1e9)) return t;  // no number, or far away
  const auto below = static_cast<int64_t>(floor(c));
  const double ratio = c - static_cast<double>(below);
  if (s.mode == SampleMode::kNearest) {
    add(s, t, static_cast<int64_t>(c), 1, n);
  } else if (s.mode == SampleMode::kLinear) {
    add(s, t, below, 1 - ratio, n);
    add(s, t, below + 1, ratio, n);
  } else {
    for (int k = -1; k <= 2; ++k) add(s, t, below + k, cubic(ratio - k), n);
  }
  return t;
}

// The dims that there are not have one place of weight 1.
template <typename T>
NDT_DEVICE Wide<T> sum_at(const GridSampling& s, const Taps* taps, const T* plane) {
  Wide<T> sum = 0;
  for (int i = 0; i < taps[0].n; ++i) {
    for (int j = 0; j < taps[1].n; ++j) {
      const int64_t row = (taps[0].from[i] * s.extents[1] + taps[1].from[j]) * s.extents[2];
      const double weight = taps[0].weights[i] * taps[1].weights[j];
      for (int k = 0; k < taps[2].n; ++k) {
        sum +=
            static_cast<Wide<T>>(weight * taps[2].weights[k]) * widen(plane[row + taps[2].from[k]]);
      }
    }
  }
  return sum;
}

template <typename T, typename G>
__global__ void sampled(GridSampling s, int64_t pieces, const T* x, const G* grid, T* y) {
  for (int64_t i = first_index(); i < s.images * pieces * s.out; i += all_threads()) {
    const int64_t o = i % s.out, image = i / s.out / pieces;
    const int64_t first = i / s.out % pieces * kChannels;
    Taps taps[3];
    for (int d = 0; d < 3; ++d) {
      if (d < s.dims) {
        const G* point = grid + (image * s.out + o) * s.dims;
        taps[d] = taps_of(s, static_cast<double>(point[s.dims - 1 - d]), s.extents[d]);
      } else {
        taps[d].n = 1;
        taps[d].from[0] = 0;
        taps[d].weights[0] = 1;
      }
    }
    for (int64_t c = first; c < first + kChannels && c < s.channels; ++c) {
      const int64_t plane = image * s.channels + c;
      y[plane * s.out + o] = narrow<T>(sum_at(s, taps, x + plane * s.in));
    }
  }
}

}  // namespace

void grid_sample(const GridSampling& s, ndt_dtype t, ndt_dtype grid_type, const void* x,
                 const void* grid, void* y, cudaStream_t stream) {
  const int64_t pieces = (s.channels + kChannels - 1) / kChannels;
  const int64_t n = s.images * pieces * s.out;
  if (n == 0) return;
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    const auto run = [&](const auto* points) {
      using G = std::remove_cv_t<std::remove_pointer_t<decltype(points)>>;
      launch(sampled<T, G>, extent_for(n), stream, s, pieces, static_cast<const T*>(x), points,
             static_cast<T*>(y));
    };
    if (grid_type == NDT_F64) {
      run(static_cast<const double*>(grid));
    } else {
      run(static_cast<const float*>(grid));
    }
  });
}

}  // namespace ndtrain::cuda
