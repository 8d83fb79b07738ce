#include "backends/cuda/kernels/grid.h"
#include "backends/cuda/kernels/pool.h"

namespace ndtrain::cuda {
namespace {

// A pool as kernels go through it: elements in the order in which channels lie together or not, so
// that neighbouring threads read neighbours.
struct Grid {
  Pool p;
  Divisor channels, cell[3];  // extents; of the outputs or of the inputs
  bool channels_inner;
  int64_t count;
};

struct Cell {
  int64_t image, channel;
  int at[3];

  NDT_DEVICE int64_t in(const Planes& t) const {
    return image * t.image + channel * t.channel + at[0] * t.cell[0] + at[1] * t.cell[1] +
           at[2] * t.cell[2];
  }
};

NDT_DEVICE int64_t take(const Divisor& by, int64_t& i) {
  const int64_t rest = by.quotient(i), at = i - rest * by.n;
  i = rest;
  return at;
}

// `i` counts vectors of kSize channels where channels are the innermost.
template <int kSize>
NDT_DEVICE Cell cell_of(const Grid& g, int64_t i) {
  Cell c;
  if (g.channels_inner) c.channel = take(g.channels, i) * kSize;
  for (int d = 2; d >= 0; --d) c.at[d] = static_cast<int>(take(g.cell[d], i));
  if (!g.channels_inner) c.channel = take(g.channels, i);
  c.image = i;
  return c;
}

// Calls f(position in the plane, position in x) for the cells of an output's window that are in x,
// in row-major order.
template <typename F>
NDT_DEVICE void for_cells(const Pool& p, const Cell& o, F f) {
  int z = o.at[0] * p.stride[0] - p.begin[0];
  for (int kz = 0; kz < p.kernel[0]; ++kz, z += p.dilation[0]) {
    if (z < 0 || z >= p.in[0]) continue;
    int y = o.at[1] * p.stride[1] - p.begin[1];
    for (int ky = 0; ky < p.kernel[1]; ++ky, y += p.dilation[1]) {
      if (y < 0 || y >= p.in[1]) continue;
      int x = o.at[2] * p.stride[2] - p.begin[2];
      for (int kx = 0; kx < p.kernel[2]; ++kx, x += p.dilation[2]) {
        if (x < 0 || x >= p.in[2]) continue;
        f((z * p.in[1] + y) * p.in[2] + x, z * p.x.cell[0] + y * p.x.cell[1] + x * p.x.cell[2]);
      }
    }
  }
}

// Calls f(output) for the outputs whose windows hold cell `c` of x, in row-major order.
template <typename F>
NDT_DEVICE void for_windows(const Pool& p, const Cell& c, F f) {
  Cell o = c;
  const auto output = [&](int d, int k) {
    const int at = c.at[d] + p.begin[d] - k * p.dilation[d];
    o.at[d] = at / p.stride[d];
    return at >= 0 && at % p.stride[d] == 0 && o.at[d] < p.out[d];
  };
  for (int kz = p.kernel[0]; kz-- > 0;) {
    if (!output(0, kz)) continue;
    for (int ky = p.kernel[1]; ky-- > 0;) {
      if (!output(1, ky)) continue;
      for (int kx = p.kernel[2]; kx-- > 0;) {
        if (output(2, kx)) f(o);
      }
    }
  }
}

// What the average of output `o` divides by.
NDT_DEVICE int cells_counted(const Pool& p, const Cell& o) {
  int n = 1;
  for (int d = 0; d < 3; ++d) {
    const int low = p.count_pad ? -p.begin[d] : 0;
    const int high = p.in[d] + (p.count_pad ? p.end[d] : 0);
    int inside = 0, at = o.at[d] * p.stride[d] - p.begin[d];
    for (int k = 0; k < p.kernel[d]; ++k, at += p.dilation[d]) {
      inside += at >= low && at < high ? 1 : 0;
    }
    n *= inside;
  }
  return n > 0 ? n : 1;
}

template <typename T>
NDT_DEVICE Wide<T> lowest() {
  if constexpr (std::is_integral<T>::value) {
    return std::is_signed<T>::value ? Wide<T>(-128) : Wide<T>(0);
  } else {
    return -Wide<T>(INFINITY);
  }
}

template <typename T, int kSize>
__global__ void maxima(Grid g, const T* data, T* to) {
  using Elements = Vector<T, kSize>;
  for (int64_t i = first_index(); i < g.count; i += all_threads()) {
    const Cell o = cell_of<kSize>(g, i);
    const T* from = data + o.image * g.p.x.image + o.channel * g.p.x.channel;
    Wide<T> top[kSize];
    for_each_lane<kSize>([&](int j) { top[j] = lowest<T>(); });
    for_cells(g.p, o, [&](int, int64_t at) {
      const Elements v = *reinterpret_cast<const Elements*>(from + at);
      for_each_lane<kSize>([&](int j) {
        const Wide<T> x = widen(v.at[j]);
        top[j] = x > top[j] ? x : top[j];  // NaN is never the maximum
      });
    });
    Elements result;
    for_each_lane<kSize>([&](int j) { result.at[j] = narrow<T>(top[j]); });
    *reinterpret_cast<Elements*>(to + o.in(g.p.y)) = result;
  }
}

template <typename T, int kSize>
__global__ void averages(Grid g, const T* data, T* to) {
  using Elements = Vector<T, kSize>;
  for (int64_t i = first_index(); i < g.count; i += all_threads()) {
    const Cell o = cell_of<kSize>(g, i);
    const T* from = data + o.image * g.p.x.image + o.channel * g.p.x.channel;
    Wide<T> sum[kSize] = {};
    for_cells(g.p, o, [&](int, int64_t at) {
      const Elements v = *reinterpret_cast<const Elements*>(from + at);
      for_each_lane<kSize>([&](int j) { sum[j] += widen(v.at[j]); });
    });
    const Wide<T> n = static_cast<Wide<T>>(cells_counted(g.p, o));
    Elements result;
    for_each_lane<kSize>([&](int j) { result.at[j] = narrow<T>(sum[j] / n); });
    *reinterpret_cast<Elements*>(to + o.in(g.p.y)) = result;
  }
}

// The cell of a window's first maximum in its plane, -1 if none is above the lowest.
template <typename T>
NDT_DEVICE int first_maximum(const Pool& p, const Cell& o, const T* data) {
  const T* from = data + o.image * p.x.image + o.channel * p.x.channel;
  Wide<T> top = lowest<T>();
  int first = -1;
  for_cells(p, o, [&](int cell, int64_t at) {
    const Wide<T> x = widen(from[at]);
    if (x > top || (std::is_integral<T>::value && first < 0)) top = x, first = cell;
  });
  return first;
}

NDT_DEVICE int64_t row_major(const Pool& p, const int (&extent)[3], const Cell& c) {
  const int64_t plane = c.image * p.channels + c.channel;
  return ((plane * extent[0] + c.at[0]) * extent[1] + c.at[1]) * extent[2] + c.at[2];
}

// The flat position of a cell of a plane when its first spatial dim is the innermost.
NDT_DEVICE int column_major(const Pool& p, int i) {
  const int x = i % p.in[2], y = i / p.in[2] % p.in[1], z = i / p.in[2] / p.in[1];
  return (x * p.in[1] + y) * p.in[0] + z;
}

template <typename T>
__global__ void maximum_indices(Grid g, const T* data, int64_t* indices) {
  const Pool& p = g.p;
  for (int64_t i = first_index(); i < g.count; i += all_threads()) {
    const Cell o = cell_of<1>(g, i);
    const int first = first_maximum(p, o, data);
    const int cell = p.by_columns && first >= 0 ? column_major(p, first) : first;
    indices[o.in(p.positions)] =
        first < 0 ? 0 : (o.image * p.channels + o.channel) * p.in_plane() + cell;
  }
}

// Cells of the maxima, in the order of the grid's elements.
template <typename T>
__global__ void maximum_cells(Grid g, const T* data, int32_t* cells) {
  for (int64_t i = first_index(); i < g.count; i += all_threads()) {
    const Cell o = cell_of<1>(g, i);
    cells[row_major(g.p, g.p.out, o)] = first_maximum(g.p, o, data);
  }
}

template <typename T>
__global__ void maximum_gradients(Grid g, const T* dy, const int32_t* cells, T* dx) {
  const Pool& p = g.p;
  for (int64_t i = first_index(); i < g.count; i += all_threads()) {
    const Cell c = cell_of<1>(g, i);
    const int self = (c.at[0] * p.in[1] + c.at[1]) * p.in[2] + c.at[2];
    Wide<T> sum = 0;
    for_windows(p, c, [&](const Cell& o) {
      if (cells[row_major(p, p.out, o)] == self) sum += widen(dy[o.in(p.y)]);
    });
    dx[c.in(p.x)] = narrow<T>(sum);
  }
}

template <typename T>
__global__ void average_gradients(Grid g, const T* dy, T* dx) {
  for (int64_t i = first_index(); i < g.count; i += all_threads()) {
    const Cell c = cell_of<1>(g, i);
    Wide<T> sum = 0;
    for_windows(g.p, c, [&](const Cell& o) {
      sum += widen(dy[o.in(g.p.y)]) / static_cast<Wide<T>>(cells_counted(g.p, o));
    });
    dx[c.in(g.p.x)] = narrow<T>(sum);
  }
}

// Over the cells of extents `of`, in vectors of `size` channels.
Grid grid_of(const Pool& p, const int (&of)[3], int size) {
  const bool inner = p.x.channel == 1 && p.y.channel == 1;
  Grid g{p, Divisor(p.channels / size), {}, inner, p.images * (p.channels / size)};
  for (int d = 0; d < 3; ++d) {
    g.cell[d] = Divisor(of[d]);
    g.count *= of[d];
  }
  return g;
}

bool in_vectors(const Planes& t, int64_t size) {
  bool all = t.channel == 1 && t.image % size == 0;
  for (int64_t step : t.cell) all = all && step % size == 0;
  return all;
}

// Calls f with how many channels are taken at once.
template <typename T, typename F>
void for_vector(const Pool& p, F f) {
  constexpr int kSize = std::is_same<T, double>::value ? 1 : kVectorSize<T>;
  if (p.channels % kSize == 0 && in_vectors(p.x, kSize) && in_vectors(p.y, kSize)) {
    return f(std::integral_constant<int, kSize>{});
  }
  f(std::integral_constant<int, 1>{});
}

template <typename F>
void for_poolable(ndt_dtype t, F f) {
  if (t == NDT_I8) return f(As<int8_t>{});
  if (t == NDT_U8) return f(As<uint8_t>{});
  for_float(t, f);
}

}  // namespace

void Pool::maximum(const void* data, void* to, int64_t* indices, cudaStream_t stream) const {
  if (outputs() == 0) return;
  for_poolable(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    const T* from = static_cast<const T*>(data);
    for_vector<T>(*this, [&](auto size) {
      const Grid g = grid_of(*this, out, size);
      launch(maxima<T, decltype(size)::value>, extent_for(g.count), stream, g, from,
             static_cast<T*>(to));
    });
    if (!indices) return;
    const Grid g = grid_of(*this, out, 1);
    launch(maximum_indices<T>, extent_for(g.count), stream, g, from, indices);
  });
}

void Pool::average(const void* data, void* to, cudaStream_t stream) const {
  if (outputs() == 0) return;
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    for_vector<T>(*this, [&](auto size) {
      const Grid g = grid_of(*this, out, size);
      launch(averages<T, decltype(size)::value>, extent_for(g.count), stream, g,
             static_cast<const T*>(data), static_cast<T*>(to));
    });
  });
}

void Pool::maximum_gradient(const void* dy, const void* data, void* work, void* dx,
                            cudaStream_t stream) const {
  if (inputs() == 0) return;
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    int32_t* cells = static_cast<int32_t*>(work);
    if (outputs() > 0) {
      launch(maximum_cells<T>, extent_for(outputs()), stream, grid_of(*this, out, 1),
             static_cast<const T*>(data), cells);
    }
    launch(maximum_gradients<T>, extent_for(inputs()), stream, grid_of(*this, in, 1),
           static_cast<const T*>(dy), cells, static_cast<T*>(dx));
  });
}

void Pool::average_gradient(const void* dy, void* dx, cudaStream_t stream) const {
  if (inputs() == 0) return;
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    launch(average_gradients<T>, extent_for(inputs()), stream, grid_of(*this, in, 1),
           static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace ndtrain::cuda
