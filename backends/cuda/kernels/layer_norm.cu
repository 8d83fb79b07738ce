#include "backends/cuda/kernels/lanes.h"
#include "backends/cuda/kernels/layer_norm.h"

namespace ndtrain::cuda {
namespace {

template <typename W>
struct Statistics {
  W mean, inv_deviation;
};

template <typename T, typename W>
NDT_DEVICE Statistics<W> statistics(const Team<W>& team, const LayerNorm& l, const T* x) {
  const W n = static_cast<W>(l.length);
  const W mean = team.sum(l.length, [&](int64_t i) { return widen(x[i]); }) / n;
  const W squares = team.sum(l.length, [&](int64_t i) {
    const W d = widen(x[i]) - mean;
    return d * d;
  });
  return {mean, W(1) / std::sqrt(squares / n + static_cast<W>(l.epsilon))};
}

struct Wanted {
  void* out[2];
};

// A: what scale and bias are stored as.
template <typename T, typename A>
__global__ void normalised_rows(LayerNorm l, const T* x, const A* scale, const A* bias, T* y,
                                Wanted wanted) {
  using W = Wide<T>;
  __shared__ W shared[kWarps];
  const Team<W> team{shared, wide_for(l.length)};
  for (int64_t r = team.first_row(); r < l.rows; r += team.teams()) {
    const T* row = x + r * l.length;
    const Statistics<W> s = statistics(team, l, row);
    team.each(l.length, [&](int64_t i) {
      const Position<2> at(l.row, i);
      const W shift = bias ? widen(bias[at.in[1]]) : W(0);
      const W z = (widen(row[i]) - s.mean) * s.inv_deviation;
      y[r * l.length + i] = narrow<T>(z * widen(scale[at.in[0]]) + shift);
    });
    if (team.self() != 0) continue;
    if (l.statistics[0] != NDT_ABSENT) store_float(wanted.out[0], l.statistics[0], r, s.mean);
    if (l.statistics[1] != NDT_ABSENT)
      store_float(wanted.out[1], l.statistics[1], r, s.inv_deviation);
  }
}

// With r = 1 / sqrt(var + epsilon), z = (x - mean) * r, h = dy * scale:
// dx = r * (h - mean(h) - z * mean(h * z)).
template <typename T, typename A>
__global__ void gradients_of_rows(LayerNorm l, const T* dy, const T* x, const A* scale,
                                  Statistics<Wide<T>>* of_rows, T* dx) {
  using W = Wide<T>;
  __shared__ W shared[kWarps];
  const Team<W> team{shared, wide_for(l.length)};
  const W n = static_cast<W>(l.length);
  for (int64_t r = team.first_row(); r < l.rows; r += team.teams()) {
    const T *d = dy + r * l.length, *row = x + r * l.length;
    const Statistics<W> s = statistics(team, l, row);
    const auto z = [&](int64_t i) { return (widen(row[i]) - s.mean) * s.inv_deviation; };
    const auto h = [&](int64_t i) {
      return widen(d[i]) * widen(scale[Position<1>(l.row, i).in[0]]);
    };
    const W mean_h = team.sum(l.length, h) / n;
    const W mean_hz = team.sum(l.length, [&](int64_t i) { return h(i) * z(i); }) / n;
    team.each(l.length, [&](int64_t i) {
      dx[r * l.length + i] = narrow<T>(s.inv_deviation * (h(i) - mean_h - z(i) * mean_hz));
    });
    if (team.self() == 0) of_rows[r] = s;
  }
}

constexpr int64_t kRowsOfPart = 64;

int64_t parts_of(int64_t rows) { return (rows + kRowsOfPart - 1) / kRowsOfPart; }

// Sums of dy * z and of dy over the rows of a part, each thread for one column.
template <typename T>
__global__ void sum_columns(LayerNorm l, int64_t parts, const T* dy, const T* x,
                            const Statistics<Wide<T>>* of_rows, Wide<T>* partial) {
  using W = Wide<T>;
  for (int64_t i = first_index(); i < parts * l.length; i += all_threads()) {
    const int64_t part = i / l.length, column = i - part * l.length;
    const int64_t end = (part + 1) * kRowsOfPart < l.rows ? (part + 1) * kRowsOfPart : l.rows;
    W scale_sum = 0, bias_sum = 0;
    for (int64_t r = part * kRowsOfPart; r < end; ++r) {
      const Statistics<W> s = of_rows[r];
      const W d = widen(dy[r * l.length + column]);
      scale_sum += d * ((widen(x[r * l.length + column]) - s.mean) * s.inv_deviation);
      bias_sum += d;
    }
    partial[i] = scale_sum;
    partial[parts * l.length + i] = bias_sum;
  }
}

// Adds up the parts, and the columns that one number of the scale was broadcast to.
template <typename W>
__global__ void join_columns(LayerNorm l, int64_t parts, const W* partial, void* dscale,
                             void* dbias) {
  const bool one_each = l.affine_count == l.length;
  for (int64_t a = first_index(); a < l.affine_count; a += all_threads()) {
    W sums[2] = {};
    const int64_t begin = one_each ? a : 0, end = one_each ? a + 1 : l.length;
    for (int64_t c = begin; c < end; ++c) {
      if (!one_each && Position<1>(l.row, c).in[0] != a) continue;
      for (int64_t p = 0; p < parts; ++p) {
        sums[0] += partial[p * l.length + c];
        sums[1] += partial[(parts + p) * l.length + c];
      }
    }
    store_float(dscale, l.affine, a, sums[0]);
    store_float(dbias, l.affine, a, sums[1]);
  }
}

// Calls f(As<T>{}, As<A>{}): scale and bias are stored as x is, or in f32.
template <typename F>
void for_types(const LayerNorm& l, F f) {
  for_float(l.t, [&](auto type) {
    using T = typename decltype(type)::Type;
    if constexpr (kIsHalf<T>) {
      if (l.affine == NDT_F32) return f(type, As<float>{});
    }
    f(type, type);
  });
}

}  // namespace

bool LayerNorm::has_types() const { return affine == t || (affine == NDT_F32 && t != NDT_F64); }

void LayerNorm::forward(const void* x, const void* scale, const void* bias, void* y,
                        void* const (&wanted)[2], cudaStream_t stream) const {
  if (rows == 0) return;
  for_types(*this, [&](auto type, auto of_affine) {
    using T = typename decltype(type)::Type;
    using A = typename decltype(of_affine)::Type;
    launch(normalised_rows<T, A>, rows_extent(rows, length), stream, *this,
           static_cast<const T*>(x), static_cast<const A*>(scale), static_cast<const A*>(bias),
           static_cast<T*>(y), Wanted{{wanted[0], wanted[1]}});
  });
}

size_t LayerNorm::workspace() const {
  return static_cast<size_t>(2 * rows + 2 * parts_of(rows) * length) * sizeof(double);
}

void LayerNorm::gradient(const void* dy, const void* x, const void* scale, void* work, void* dx,
                         void* dscale, void* dbias, cudaStream_t stream) const {
  for_types(*this, [&](auto type, auto of_affine) {
    using T = typename decltype(type)::Type;
    using A = typename decltype(of_affine)::Type;
    using W = Wide<T>;
    auto* of_rows = static_cast<Statistics<W>*>(work);
    W* partial = static_cast<W*>(work) + 2 * rows;
    const T *d = static_cast<const T*>(dy), *data = static_cast<const T*>(x);
    const int64_t parts = parts_of(rows);
    if (rows > 0) {
      launch(gradients_of_rows<T, A>, rows_extent(rows, length), stream, *this, d, data,
             static_cast<const A*>(scale), of_rows, static_cast<T*>(dx));
      launch(sum_columns<T>, extent_for(parts * length), stream, *this, parts, d, data, of_rows,
             partial);
    }
    launch(join_columns<W>, extent_for(affine_count), stream, *this, parts, partial, dscale, dbias);
  });
}

}  // namespace ndtrain::cuda
