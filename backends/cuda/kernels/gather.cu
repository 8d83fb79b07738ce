#include "backends/cuda/kernels/gather.h"
#include "backends/cuda/kernels/grid.h"

namespace ndtrain::cuda {
namespace {

NDT_DEVICE int64_t index_at(const Gathering& g, const void* indices, int64_t k) {
  const int64_t i =
      g.wide ? static_cast<const int64_t*>(indices)[k] : static_cast<const int32_t*>(indices)[k];
  return i < 0 ? i + g.extent : i;
}

template <typename Word>
__global__ void gathered(Gathering g, Divisor inner, Divisor count, const Word* in,
                         const void* indices, Word* out) {
  const int64_t n = g.outer * g.indices * g.inner;
  for (int64_t i = first_index(); i < n; i += all_threads()) {
    const int64_t row = inner.quotient(i), o = count.quotient(row), k = row - o * g.indices;
    const int64_t at = index_at(g, indices, k);
    const bool inside = at >= 0 && at < g.extent;
    out[i] = inside ? in[(o * g.extent + at) * g.inner + i - row * g.inner]
                    : static_cast<Word>(~uint64_t{0});
  }
}

template <typename T>
__global__ void scattered(Gathering g, const T* dy, const void* indices, T* dx) {
  const int64_t n = g.outer * g.extent * g.inner;
  for (int64_t i = first_index(); i < n; i += all_threads()) {
    const int64_t row = i / g.inner, o = row / g.extent, e = row - o * g.extent;
    Wide<T> sum = 0;
    for (int64_t k = 0; k < g.indices; ++k) {
      if (index_at(g, indices, k) != e) continue;
      sum += widen(dy[(o * g.indices + k) * g.inner + i - row * g.inner]);
    }
    dx[i] = narrow<T>(sum);
  }
}

}  // namespace

void gather(const Gathering& g, int64_t element_bytes, const void* in, const void* indices,
            void* out, cudaStream_t stream) {
  const int64_t n = g.outer * g.indices * g.inner;
  if (n == 0) return;
  for_word(element_bytes, [&](auto word) {
    using Word = typename decltype(word)::Type;
    launch(gathered<Word>, extent_for(n), stream, g, Divisor(g.inner), Divisor(g.indices),
           static_cast<const Word*>(in), indices, static_cast<Word*>(out));
  });
}

void gather_grad(const Gathering& g, ndt_dtype t, const void* dy, const void* indices, void* dx,
                 cudaStream_t stream) {
  const int64_t n = g.outer * g.extent * g.inner;
  if (n == 0) return;
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    launch(scattered<T>, extent_for(n), stream, g, static_cast<const T*>(dy), indices,
           static_cast<T*>(dx));
  });
}

}  // namespace ndtrain::cuda
