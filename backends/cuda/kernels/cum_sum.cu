#include "backends/cuda/kernels/cum_sum.h"
#include "backends/cuda/kernels/grid.h"

namespace ndtrain::cuda {
namespace {

// A thread to a line, in the order of the axis.
template <typename W>
__global__ void summed(CumSum s, ndt_dtype t, const void* x, void* y) {
  const int64_t lines = s.outer * s.inner;
  for (int64_t line = first_index(); line < lines; line += all_threads()) {
    const int64_t o = line / s.inner, start = o * s.n * s.inner + line - o * s.inner;
    W sum = 0;
    for (int64_t k = 0; k < s.n; ++k) {
      const int64_t at = start + (s.reverse ? s.n - 1 - k : k) * s.inner;
      const W before = sum;
      sum += load<W>(x, t, at);
      store(y, t, at, s.exclusive ? before : sum);
    }
  }
}

}  // namespace

void cum_sum(const CumSum& s, ndt_dtype t, const void* x, void* y, cudaStream_t stream) {
  const int64_t lines = s.outer * s.inner;
  if (lines == 0 || s.n == 0) return;
  const auto start = [&](auto kernel) { launch(kernel, extent_for(lines), stream, s, t, x, y); };
  switch (class_of(t)) {
    case Class::kFloat:
      return start(summed<float>);
    case Class::kDouble:
      return start(summed<double>);
    case Class::kSigned:
      return start(summed<int64_t>);
    case Class::kUnsigned:
      return start(summed<uint64_t>);
  }
}

}  // namespace ndtrain::cuda
