#include <utility>

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

constexpr int kRun = 256;  // keys that one block sorts; a list is long when it has more

// Index k as a number that sorts by what it names, then by k; what it names outside is behind all.
NDT_DEVICE int64_t key_at(const Gathering& g, const void* indices, int64_t k) {
  const int64_t e = index_at(g, indices, k);
  return (e >= 0 && e < g.extent ? e : g.extent) * g.indices + k;
}

NDT_DEVICE int64_t first_not_below(const int64_t* keys, int64_t begin, int64_t end, int64_t key) {
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (keys[middle] < key) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// Runs of kRun keys, each sorted: no two keys are equal.
__global__ void sorted_runs(Gathering g, const void* indices, int64_t* keys) {
  __shared__ int64_t run[kRun];
  for (int64_t begin = int64_t{blockIdx.x} * kRun; begin < g.indices;
       begin += int64_t{gridDim.x} * kRun) {
    const int64_t k = begin + threadIdx.x;
    const int64_t key = key_at(g, indices, k < g.indices ? k : g.indices - 1);
    const int n = static_cast<int>(g.indices - begin < kRun ? g.indices - begin : kRun);
    __syncthreads();
    run[threadIdx.x] = key;
    __syncthreads();
    int below = 0;
    for (int j = 0; j < n; ++j) below += run[j] < key;
    if (k < g.indices) keys[begin + below] = key;
  }
}

// Two runs of `width` sorted keys after the other become one.
__global__ void merged_runs(int64_t n, int64_t width, const int64_t* from, int64_t* to) {
  const auto cut = [n](int64_t at) { return at < n ? at : n; };
  for (int64_t i = first_index(); i < n; i += all_threads()) {
    const int64_t begin = i / (2 * width) * (2 * width), middle = cut(begin + width);
    const bool first = i < middle;
    const int64_t other = first ? middle : begin, own = first ? begin : middle;
    const int64_t end = first ? cut(middle + width) : middle;
    to[begin + (i - own) + first_not_below(from, other, end, from[i]) - other] = from[i];
  }
}

// Where the keys begin that name e; the last is where those inside end.
__global__ void starts_of(Gathering g, const int64_t* keys, int64_t* starts) {
  for (int64_t e = first_index(); e <= g.extent; e += all_threads()) {
    starts[e] = first_not_below(keys, 0, g.indices, e * g.indices);
  }
}

template <typename T>
__global__ void summed(Gathering g, const T* dy, const int64_t* keys, const int64_t* starts,
                       T* dx) {
  const int64_t n = g.outer * g.extent * g.inner;
  for (int64_t i = first_index(); i < n; i += all_threads()) {
    const int64_t row = i / g.inner, o = row / g.extent, e = row - o * g.extent;
    const T* from = dy + o * g.indices * g.inner + i - row * g.inner;
    Wide<T> sum = 0;
    for (int64_t p = starts[e]; p < starts[e + 1]; ++p) {
      sum += widen(from[(keys[p] - e * g.indices) * g.inner]);
    }
    dx[i] = narrow<T>(sum);
  }
}

// Where the sorted keys are: `keys` or `other`, which each have room for them.
const int64_t* sort(const Gathering& g, const void* indices, int64_t* keys, int64_t* other,
                    cudaStream_t stream) {
  Extent runs = extent_for(g.indices);
  runs.block = kRun;
  launch(sorted_runs, runs, stream, g, indices, keys);
  for (int64_t width = kRun; width < g.indices; width *= 2) {
    launch(merged_runs, extent_for(g.indices), stream, g.indices, width, keys, other);
    std::swap(keys, other);
  }
  return keys;
}

}  // namespace

size_t sorting_workspace(const Gathering& g) {
  return static_cast<size_t>(2 * g.indices + g.extent + 1) * sizeof(int64_t);
}

SortedIndices sort_indices(const Gathering& g, const void* indices, void* workspace,
                           cudaStream_t stream) {
  auto* const starts = static_cast<int64_t*>(workspace);
  int64_t* const room = starts + g.extent + 1;
  const int64_t* keys = sort(g, indices, room, room + g.indices, stream);
  launch(starts_of, extent_for(g.extent + 1), stream, g, keys, starts);
  return {keys, starts};
}

size_t gather_grad_workspace(const Gathering& g) {
  return g.indices <= kRun ? 0 : sorting_workspace(g);
}

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
                 void* workspace, cudaStream_t stream) {
  const int64_t n = g.outer * g.extent * g.inner;
  if (n == 0) return;
  if (g.indices > kRun) {
    const SortedIndices sorted = sort_indices(g, indices, workspace, stream);
    for_float(t, [&](auto type) {
      using T = typename decltype(type)::Type;
      launch(summed<T>, extent_for(n), stream, g, static_cast<const T*>(dy), sorted.keys,
             sorted.starts, static_cast<T*>(dx));
    });
    return;
  }
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    launch(scattered<T>, extent_for(n), stream, g, static_cast<const T*>(dy), indices,
           static_cast<T*>(dx));
  });
}

}  // namespace ndtrain::cuda
