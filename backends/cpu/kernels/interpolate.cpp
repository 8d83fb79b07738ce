// Interpolate: x is [outer, n, inner], y is [outer, places, inner]; each place of y is a sum of
// `taps` places of x, in their order.
#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

constexpr int64_t kTogether = 256;  // of `inner`, whose sums lie on the stack

template <typename W>
struct Interpolation {
  int64_t outer = 1, n, inner = 1, places, taps;
  std::vector<int64_t> from;
  std::vector<W> weights;

  explicit Interpolation(const Node& node) {
    const std::span<const int64_t> x = dims_of(node.in(0));
    const int axis = axis_of(node, static_cast<int>(x.size()));
    for (int d = 0; d < axis; ++d) outer *= x[d];
    for (size_t d = axis + 1; d < x.size(); ++d) inner *= x[d];
    n = x[axis];
    places = node.in(1).dims[0];
    taps = node.in(1).dims[1];
    from = node.known_ints(1);
    for (const int64_t i : from) {
      if (i < 0 || i >= n) invalid("index ", i, " is not in an axis of ", n);
    }
    for (const double w : node.known_doubles(2)) weights.push_back(static_cast<W>(w));
  }
};

// A row of x whose neighbours along the axis lie side by side. kTaps: their number where it is
// known.
template <int kTaps, typename T, typename W>
void along_row(const Interpolation<W>& p, const T* x, T* y) {
  const int64_t taps = kTaps > 0 ? kTaps : p.taps;
  const int64_t* from = p.from.data();
  const W* weights = p.weights.data();
  for (int64_t o = 0; o < p.places; ++o, from += taps, weights += taps) {
    W sum = weights[0] * widen(x[from[0]]);
    for (int64_t k = 1; k < taps; ++k) sum += weights[k] * widen(x[from[k]]);
    y[o] = static_cast<T>(sum);
  }
}

// One place of y, `inner` numbers.
template <int kTaps, typename T, typename W>
void across_rows(const Interpolation<W>& p, const T* x, int64_t o, T* y) {
  const int64_t taps = kTaps > 0 ? kTaps : p.taps;
  const int64_t* from = p.from.data() + o * taps;
  const W* weights = p.weights.data() + o * taps;
  for (int64_t begin = 0; begin < p.inner; begin += kTogether) {
    const int64_t width = std::min(kTogether, p.inner - begin);
    W sums[kTogether];
    for (int64_t k = 0; k < taps; ++k) {
      const W weight = weights[k];
      const T* row = x + from[k] * p.inner + begin;
      for (int64_t i = 0; i < width; ++i) {
        const W term = weight * widen(row[i]);
        sums[i] = k == 0 ? term : sums[i] + term;
      }
    }
    for (int64_t i = 0; i < width; ++i) y[begin + i] = static_cast<T>(sums[i]);
  }
}

template <int kTaps, typename T>
std::unique_ptr<Kernel> interpolating(const Interpolation<wide_t<T>>& p) {
  const int64_t rows = p.inner == 1 ? p.outer : p.outer * p.places;
  const int64_t work = p.inner == 1 ? p.places * p.taps : p.inner * p.taps;
  auto k = kernel([p, rows, work](const void* const* in, void* const* out, void*) {
    const T* x = as<T>(in[0]);
    T* y = as<T>(out[0]);
    parallel_for(rows, kElementGrain / (work + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        if (p.inner == 1) {
          along_row<kTaps>(p, x + r * p.n, y + r * p.places);
        } else {
          across_rows<kTaps>(p, x + r / p.places * p.n * p.inner, r % p.places, y + r * p.inner);
        }
      }
    });
  });
  k->packed_inputs = 0b110;
  return k;
}

std::unique_ptr<Kernel> interpolate_kernel(const Node& node) {
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() {
    const Interpolation<wide_t<T>> p(node);
    if (p.taps < 1) unsupported("takes one place at least");
    return p.taps == 2 ? interpolating<2, T>(p) : interpolating<0, T>(p);
  });
}

const Registered registered{{"Interpolate", interpolate_kernel}};

}  // namespace
}  // namespace ndtrain::cpu
