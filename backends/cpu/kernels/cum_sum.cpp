// CumSum: x is [outer, n, inner]; some neighbours of `inner` are summed together, each in the order
// of the axis.
#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

constexpr int64_t kTogether = 64;

struct Summing {
  int64_t outer = 1, n, inner = 1;
  bool exclusive, reverse;

  explicit Summing(const Node& node)
      : exclusive(node.i("exclusive") != 0), reverse(node.i("reverse") != 0) {
    const std::span<const int64_t> x = dims_of(node.in(0));
    const int rank = static_cast<int>(x.size());
    int64_t axis = node.known_ints(1).at(0);
    if (axis < -rank || axis >= rank) invalid("axis ", axis, " of rank ", rank);
    if (axis < 0) axis += rank;
    n = x[axis];
    for (int d = 0; d < rank; ++d) {
      if (d < axis) outer *= x[d];
      if (d > axis) inner *= x[d];
    }
  }
};

template <typename T>
void sum_lines(const Summing& s, const T* x, T* y, int64_t width) {
  wide_t<T> sums[kTogether] = {};
  for (int64_t k = 0; k < s.n; ++k) {
    const int64_t at = (s.reverse ? s.n - 1 - k : k) * s.inner;
    for (int64_t i = 0; i < width; ++i) {
      const wide_t<T> before = sums[i];
      sums[i] += widen(x[at + i]);
      y[at + i] = static_cast<T>(s.exclusive ? before : sums[i]);
    }
  }
}

template <typename T>
std::unique_ptr<Kernel> summing(const Summing& s) {
  auto k = kernel([s](const void* const* in, void* const* out, void*) {
    const int64_t pieces = (s.inner + kTogether - 1) / kTogether;
    const int64_t grain = std::max<int64_t>(1, kElementGrain / (kTogether * (s.n + 1)));
    parallel_for(s.outer * pieces, grain, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t first = p % pieces * kTogether;
        const int64_t at = p / pieces * s.n * s.inner + first;
        sum_lines(s, as<T>(in[0]) + at, as<T>(out[0]) + at, std::min(kTogether, s.inner - first));
      }
    });
  });
  k->in_place_inputs = 1;
  return k;
}

std::unique_ptr<Kernel> cum_sum_kernel(const Node& node) {
  const Summing s(node);
  return for_number(node.in(0).dtype, node.op(), [&]<typename T>() { return summing<T>(s); });
}

const Registered registered{{"CumSum", cum_sum_kernel}};

}  // namespace
}  // namespace ndtrain::cpu
