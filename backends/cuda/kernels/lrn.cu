#include "backends/cuda/kernels/grid.h"
#include "backends/cuda/kernels/lrn.h"

namespace ndtrain::cuda {
namespace {

// Sum of term(element) over the channels around element i's own.
template <typename W, typename F>
NDT_DEVICE W over_channels(const Lrn& l, int64_t i, int64_t before, int64_t after, F term) {
  const int64_t c = i / l.step % l.channels;
  const int64_t first = before > c ? 0 : c - before;
  const int64_t last = after > l.channels - 1 - c ? l.channels - 1 : c + after;
  W sum = 0;
  for (int64_t j = first; j <= last; ++j) sum += term(i + (j - c) * l.step);
  return sum;
}

// bias + alpha / size * sum of x^2
template <typename T>
NDT_DEVICE Wide<T> response(const Lrn& l, const T* x, int64_t i) {
  using W = Wide<T>;
  const int64_t before = (l.size - 1) / 2;
  const W sum = over_channels<W>(l, i, before, l.size - 1 - before, [&](int64_t j) {
    const W v = widen(x[j]);
    return v * v;
  });
  return static_cast<W>(l.bias) + static_cast<W>(l.alpha / static_cast<double>(l.size)) * sum;
}

template <typename T>
__global__ void normalised(Lrn l, const T* x, T* y) {
  using W = Wide<T>;
  for (int64_t i = first_index(); i < l.count; i += all_threads()) {
    y[i] = narrow<T>(widen(x[i]) * std::pow(response(l, x, i), static_cast<W>(-l.beta)));
  }
}

template <typename T>
__global__ void taken_apart(Lrn l, const T* dy, const T* x, Wide<T>* direct, Wide<T>* shared) {
  using W = Wide<T>;
  for (int64_t i = first_index(); i < l.count; i += all_threads()) {
    const W s = response(l, x, i);
    const W d = widen(dy[i]) * std::pow(s, static_cast<W>(-l.beta));
    direct[i] = d;
    shared[i] = d * widen(x[i]) / s;
  }
}

// dx = dy s^-beta - 2 alpha / size beta x * sum of dy x s^(-beta - 1) over the channels that see
// it.
template <typename T>
__global__ void gradients(Lrn l, const T* x, const Wide<T>* direct, const Wide<T>* shared, T* dx) {
  using W = Wide<T>;
  const W share = static_cast<W>(2 * l.alpha / static_cast<double>(l.size) * l.beta);
  const int64_t before = l.size / 2;
  for (int64_t i = first_index(); i < l.count; i += all_threads()) {
    const W sum =
        over_channels<W>(l, i, before, l.size - 1 - before, [&](int64_t j) { return shared[j]; });
    dx[i] = narrow<T>(direct[i] - share * widen(x[i]) * sum);
  }
}

}  // namespace

void Lrn::forward(const void* x, void* y, cudaStream_t stream) const {
  if (count == 0) return;
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    launch(normalised<T>, extent_for(count), stream, *this, static_cast<const T*>(x),
           static_cast<T*>(y));
  });
}

void Lrn::gradient(const void* dy, const void* x, void* work, void* dx, cudaStream_t stream) const {
  if (count == 0) return;
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    auto* direct = static_cast<Wide<T>*>(work);
    auto* shared = direct + count;
    const T* data = static_cast<const T*>(x);
    launch(taken_apart<T>, extent_for(count), stream, *this, static_cast<const T*>(dy), data,
           direct, shared);
    launch(gradients<T>, extent_for(count), stream, *this, data, direct, shared,
           static_cast<T*>(dx));
  });
}

}  // namespace ndtrain::cuda
