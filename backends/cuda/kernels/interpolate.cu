#include "backends/cuda/kernels/grid.h"
#include "backends/cuda/kernels/interpolate.h"

namespace ndtrain::cuda {
namespace {

template <typename T>
__global__ void interpolated(Interpolation p, Divisor inner, Divisor places, const T* in,
                             const int64_t* from, const Wide<T>* weights, T* out) {
  const int64_t n = p.outer * p.places * p.inner;
  for (int64_t i = first_index(); i < n; i += all_threads()) {
    const int64_t row = inner.quotient(i), o = places.quotient(row);
    const int64_t first = (row - o * p.places) * p.taps;
    const T* x = in + o * p.extent * p.inner + i - row * p.inner;
    Wide<T> sum = 0;
    for (int64_t k = first; k < first + p.taps; ++k) {
      sum += weights[k] * widen(x[from[k] * p.inner]);
    }
    out[i] = narrow<T>(sum);
  }
}

}  // namespace

void interpolate(const Interpolation& p, ndt_dtype t, const void* in, const void* from,
                 const void* weights, void* out, cudaStream_t stream) {
  const int64_t n = p.outer * p.places * p.inner;
  if (n == 0) return;
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    launch(interpolated<T>, extent_for(n), stream, p, Divisor(p.inner), Divisor(p.places),
           static_cast<const T*>(in), static_cast<const int64_t*>(from),
           static_cast<const Wide<T>*>(weights), static_cast<T*>(out));
  });
}

}  // namespace ndtrain::cuda
