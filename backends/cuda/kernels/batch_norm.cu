#include "backends/cuda/kernels/batch_norm.h"
#include "backends/cuda/kernels/lanes.h"

namespace ndtrain::cuda {
namespace {

// Elements of channel c are i = 0, 1, …, count.
struct Channels {
  int64_t count, channels, plane;
  bool last;
  int64_t part, parts;  // elements that one block folds, and how many blocks fold a channel

  NDT_DEVICE int64_t at(int64_t i, int64_t c) const {
    if (last) return i * channels + c;
    const int64_t image = i / plane;
    return (image * channels + c) * plane + i - image * plane;
  }
  // Channels that a block folds side by side: as many as lie together.
  NDT_DEVICE int columns() const { return last ? kLanes : 1; }
};

// n numbers: their mean, and the sum of their squared distances from it.
template <typename W>
struct Moments {
  W n, mean, squares;

  // Chan, Golub and LeVeque (1979).
  NDT_DEVICE void merge(const Moments& o) {
    if (o.n == W(0)) return;
    const W total = n + o.n, delta = o.mean - mean, share = o.n / total;
    mean += delta * share;
    squares += o.squares + delta * delta * n * share;
    n = total;
  }
};

constexpr int kChunk = 8;  // numbers whose moments are taken at once, to divide seldom

template <typename T>
struct TakeMoments {
  using W = Wide<T>;
  using State = Moments<W>;
  const T* x;

  NDT_DEVICE void take(State& state, const int64_t (&at)[kChunk], int m, int64_t) const {
    W v[kChunk], sum = 0, squares = 0;
    for_each_lane<kChunk>([&](int j) {
      v[j] = j < m ? widen(x[at[j]]) : W(0);
      sum += v[j];
    });
    const W mean = sum / static_cast<W>(m);
    for_each_lane<kChunk>([&](int j) {
      if (j < m) squares += (v[j] - mean) * (v[j] - mean);
    });
    state.merge({static_cast<W>(m), mean, squares});
  }
};

template <typename W>
struct Sums {
  W dbias, dscale;  // of dy, and of dy * (x - mean)

  NDT_DEVICE void merge(const Sums& o) {
    dbias += o.dbias;
    dscale += o.dscale;
  }
};

template <typename T>
struct TakeSums {
  using W = Wide<T>;
  using State = Sums<W>;
  const T *dy, *x;
  const W* mean;

  NDT_DEVICE void take(State& state, const int64_t (&at)[kChunk], int m, int64_t c) const {
    for_each_lane<kChunk>([&](int j) {
      if (j >= m) return;
      const W d = widen(dy[at[j]]);
      state.dbias += d;
      state.dscale += d * (widen(x[at[j]]) - mean[c]);
    });
  }
};

// A block folds one part of the elements of its columns' channels: states[part, channel].
template <typename Take>
__global__ void fold_channels(Channels s, Take take, typename Take::State* states) {
  using State = typename Take::State;
  __shared__ State shared[kBlockThreads];
  const int columns = s.columns(), lanes = kBlockThreads / columns;
  const int self = static_cast<int>(threadIdx.x);
  const int64_t groups = (s.channels + columns - 1) / columns;
  for (int64_t task = blockIdx.x; task < groups * s.parts; task += gridDim.x) {
    const int64_t part = task / groups, c = (task - part * groups) * columns + self % columns;
    const int64_t end = (part + 1) * s.part < s.count ? (part + 1) * s.part : s.count;
    State state = {};
    for (int64_t i = part * s.part + self / columns; i < end && c < s.channels;
         i += lanes * kChunk) {
      int64_t at[kChunk];
      int m = 0;
      for_each_lane<kChunk>([&](int j) {
        const int64_t k = i + j * lanes;
        at[j] = k < end ? s.at(k, c) : 0;
        m += k < end ? 1 : 0;
      });
      take.take(state, at, m, c);
    }
    shared[self] = state;
    __syncthreads();
    for (int half = kBlockThreads / 2; half >= columns; half /= 2) {
      if (self < half) shared[self].merge(shared[self + half]);
      __syncthreads();
    }
    if (self < columns && c < s.channels) states[part * s.channels + c] = shared[self];
    __syncthreads();
  }
}

template <typename State>
NDT_DEVICE State joined(const Channels& s, const State* states, int64_t c) {
  State state = states[c];
  for (int64_t p = 1; p < s.parts; ++p) state.merge(states[p * s.channels + c]);
  return state;
}

// Numbers per channel, of `channels` each: y = (x - mean) * factor + shift; for gradients
// dx = factor * (dy - shift - (x - mean) * slope).
template <typename W>
struct Factors {
  W *mean, *factor, *shift, *slope;

  Factors(void* work, int64_t channels)
      : mean(static_cast<W*>(work)),
        factor(mean + channels),
        shift(factor + channels),
        slope(shift + channels) {}
};

struct Parameters {
  const void *scale, *bias, *mean, *var;
  void *new_mean, *new_var;
};

template <typename W>
__global__ void factors_given(BatchNorm b, Parameters p, Factors<W> f) {
  for (int64_t c = first_index(); c < b.channels; c += all_threads()) {
    const W var = load_float<W>(p.var, b.running, c);
    f.mean[c] = load_float<W>(p.mean, b.running, c);
    f.factor[c] = load_float<W>(p.scale, b.affine, c) / std::sqrt(var + static_cast<W>(b.epsilon));
    f.shift[c] = load_float<W>(p.bias, b.affine, c);
  }
}

template <typename W>
__global__ void factors_taken(BatchNorm b, Channels s, const Moments<W>* states, Parameters p,
                              Factors<W> f) {
  const W momentum = static_cast<W>(b.momentum);
  for (int64_t c = first_index(); c < b.channels; c += all_threads()) {
    const Moments<W> m = joined(s, states, c);
    const W var = m.squares / m.n, r = W(1) / std::sqrt(var + static_cast<W>(b.epsilon));
    const int64_t a = c % b.affine_period;
    f.mean[c] = m.mean;
    f.factor[c] = p.scale ? load_float<W>(p.scale, b.affine, a) * r : r;
    f.shift[c] = p.bias ? load_float<W>(p.bias, b.affine, a) : W(0);
    const auto move = [&](const void* from, void* to, W batch) {
      const W old = load_float<W>(from, b.running, c);
      store_float(to, b.running, c, momentum * old + (W(1) - momentum) * batch);
    };
    if (p.new_mean) move(p.mean, p.new_mean, m.mean);
    if (p.new_var) move(p.var, p.new_var, var);
  }
}

// `f.factor` is 1 / deviation before.
template <typename W>
__global__ void factors_of_gradient(BatchNorm b, Channels s, const Sums<W>* states,
                                    const void* scale, void* dscale, void* dbias, Factors<W> f) {
  for (int64_t c = first_index(); c < b.channels; c += all_threads()) {
    const Sums<W> sums = joined(s, states, c);
    const W r = f.factor[c], n = static_cast<W>(s.count), slope = r * sums.dscale;
    f.factor[c] = load_float<W>(scale, b.affine, c) * r;
    f.shift[c] = sums.dbias / n;
    f.slope[c] = r * slope / n;
    store_float(dscale, b.affine, c, slope);
    store_float(dbias, b.affine, c, sums.dbias);
  }
}

// Element i of the tensor's memory is of channel c: f(i, c) for `kSize` elements at once.
NDT_DEVICE int64_t channel_of(const Channels& s, int64_t i) {
  return s.last ? i % s.channels : i / s.plane % s.channels;
}

template <typename T, int kSize>
__global__ void scaled(Channels s, int64_t n, const T* x, Factors<Wide<T>> f, T* y) {
  using Elements = Vector<T, kSize>;
  for (int64_t i = first_index(); i < n / kSize; i += all_threads()) {
    const Elements in = reinterpret_cast<const Elements*>(x)[i];
    const int64_t first = channel_of(s, i * kSize);
    Elements result;
    for_each_lane<kSize>([&](int j) {
      const int64_t c = s.last ? first + j : first;
      result.at[j] = narrow<T>((widen(in.at[j]) - f.mean[c]) * f.factor[c] + f.shift[c]);
    });
    reinterpret_cast<Elements*>(y)[i] = result;
  }
}

template <typename T, int kSize>
__global__ void scaled_gradient(Channels s, int64_t n, const T* dy, const T* x, Factors<Wide<T>> f,
                                T* dx) {
  using Elements = Vector<T, kSize>;
  for (int64_t i = first_index(); i < n / kSize; i += all_threads()) {
    const Elements d = reinterpret_cast<const Elements*>(dy)[i];
    const Elements in = reinterpret_cast<const Elements*>(x)[i];
    const int64_t first = channel_of(s, i * kSize);
    Elements result;
    for_each_lane<kSize>([&](int j) {
      const int64_t c = s.last ? first + j : first;
      const Wide<T> z = (widen(in.at[j]) - f.mean[c]) * f.slope[c];
      result.at[j] = narrow<T>(f.factor[c] * (widen(d.at[j]) - f.shift[c] - z));
    });
    reinterpret_cast<Elements*>(dx)[i] = result;
  }
}

Channels channels_of(const BatchNorm& b) {
  constexpr int64_t kPart = 4096, kMostParts = 64;
  const int64_t count = b.images * b.plane;
  const int64_t parts = std::clamp<int64_t>((count + kPart - 1) / kPart, 1, kMostParts);
  return {count, b.channels, b.plane, b.last, (count + parts - 1) / parts, parts};
}

// Blocks for the parts of channels, side by side or one by one.
Extent fold_extent(const Channels& s) {
  const int64_t columns = s.last ? kLanes : 1, groups = (s.channels + columns - 1) / columns;
  return {extent_for(groups * s.parts * kBlockThreads).grid, kBlockThreads};
}

// Calls f with how many elements are of one channel, or of neighbouring ones, all over.
template <typename T, typename F>
void for_vector(const Channels& s, F f) {
  constexpr int kSize = kVectorSize<T>;
  if ((s.last ? s.channels : s.plane) % kSize == 0) {
    return f(std::integral_constant<int, kSize>{});
  }
  f(std::integral_constant<int, 1>{});
}

template <typename T>
void scale_all(const Channels& s, const void* x, const Factors<Wide<T>>& f, void* y,
               cudaStream_t stream) {
  const int64_t n = s.count * s.channels;
  if (n == 0) return;
  for_vector<T>(s, [&](auto size) {
    launch(scaled<T, decltype(size)::value>, extent_for(n, size), stream, s, n,
           static_cast<const T*>(x), f, static_cast<T*>(y));
  });
}

// The states of parts lie behind the factors.
template <typename State, typename W>
State* states_in(void* work, int64_t channels) {
  return reinterpret_cast<State*>(static_cast<W*>(work) + 4 * channels);
}

template <typename T>
void take_moments(const BatchNorm& b, const Channels& s, const void* x, void* work,
                  const Parameters& p, cudaStream_t stream) {
  using W = Wide<T>;
  auto* states = states_in<Moments<W>, W>(work, b.channels);
  const TakeMoments<T> take{static_cast<const T*>(x)};
  launch(fold_channels<TakeMoments<T>>, fold_extent(s), stream, s, take, states);
  launch(factors_taken<W>, extent_for(b.channels), stream, b, s, states, p,
         Factors<W>(work, b.channels));
}

}  // namespace

size_t BatchNorm::workspace() const {
  const int64_t states = channels_of(*this).parts * 3;
  return static_cast<size_t>(channels * (4 + states)) * (t == NDT_F64 ? 8 : 4);
}

void BatchNorm::apply(const void* x, const void* scale, const void* bias, const void* mean,
                      const void* var, void* work, void* y, cudaStream_t stream) const {
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    const Factors<Wide<T>> f(work, channels);
    const Parameters p = {scale, bias, mean, var, nullptr, nullptr};
    launch(factors_given<Wide<T>>, extent_for(channels), stream, *this, p, f);
    scale_all<T>(channels_of(*this), x, f, y, stream);
  });
}

void BatchNorm::train(const void* x, const void* scale, const void* bias, const void* old_mean,
                      const void* old_var, void* work, void* y, void* new_mean, void* new_var,
                      cudaStream_t stream) const {
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    const Channels s = channels_of(*this);
    const Parameters p = {scale, bias, old_mean, old_var, new_mean, new_var};
    take_moments<T>(*this, s, x, work, p, stream);
    scale_all<T>(s, x, Factors<Wide<T>>(work, channels), y, stream);
  });
}

void BatchNorm::gradient(const void* dy, const void* x, const void* scale, void* work, void* dx,
                         void* dscale, void* dbias, cudaStream_t stream) const {
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    using W = Wide<T>;
    const Channels s = channels_of(*this);
    const Factors<W> f(work, channels);
    take_moments<T>(*this, s, x, work, {}, stream);
    auto* states = states_in<Sums<W>, W>(work, channels);
    const T *d = static_cast<const T*>(dy), *data = static_cast<const T*>(x);
    launch(fold_channels<TakeSums<T>>, fold_extent(s), stream, s, TakeSums<T>{d, data, f.mean},
           states);
    launch(factors_of_gradient<W>, extent_for(channels), stream, *this, s, states, scale, dscale,
           dbias, f);
    const int64_t n = s.count * s.channels;
    if (n == 0) return;
    for_vector<T>(s, [&](auto size) {
      launch(scaled_gradient<T, decltype(size)::value>, extent_for(n, size), stream, s, n, d, data,
             f, static_cast<T*>(dx));
    });
  });
}

}  // namespace ndtrain::cuda
