// See winograd_loops.h and block_lanes.inc. Each transform is in one function that is never
// inlined, so that it rounds in one way.
#include "backends/onednn/winograd_loops.h"

#include "backends/onednn/block_lanes.inc"

namespace ndtrain::onednn::NDT_ISA {
namespace {

constexpr int kSide = 6;            // pixels of an image for a tile
constexpr int64_t kLanes = kBlock;  // B

// The points are 0, +-kNear, +-kFar and infinity.
constexpr float kNear = 0.625F, kFar = 1.5F;
constexpr float kNear2 = kNear * kNear, kFar2 = kFar * kFar;
// One by the product of a point's distances from the others: of 0, of +-kNear, of +-kFar.
constexpr float kOf0 = 1 / (kNear2 * kFar2), kOfNear = 1 / (2 * kNear2 * (kNear2 - kFar2)),
                kOfFar = 1 / (2 * kFar2 * (kFar2 - kNear2));

[[gnu::always_inline]] inline Vec load(const float* x) {
  return F32::load(reinterpret_cast<const char*>(x));
}
[[gnu::always_inline]] inline void store(float* x, Vec v) {
  F32::store(reinterpret_cast<char*>(x), v);
}

// A transform of columns, then of rows: of load(y, x), kFrom by kFrom, to store(y, x, what it is),
// kTo by kTo.
template <auto kColumn, int kFrom, int kTo, typename Load, typename Store>
[[gnu::always_inline]] inline void transform_2d(const Load& load, const Store& store) {
  Vec half[kTo][kFrom];
#pragma GCC unroll 6
  for (int x = 0; x < kFrom; ++x) {
    Vec column[kFrom], all[kTo];
#pragma GCC unroll 6
    for (int y = 0; y < kFrom; ++y) column[y] = load(y, x);
    kColumn(column, all);
#pragma GCC unroll 6
    for (int y = 0; y < kTo; ++y) half[y][x] = all[y];
  }
#pragma GCC unroll 6
  for (int y = 0; y < kTo; ++y) {
    Vec all[kTo];
    kColumn(half[y], all);
#pragma GCC unroll 6
    for (int x = 0; x < kTo; ++x) store(y, x, all[x]);
  }
}

// G of one column: 6 from 3.
[[gnu::always_inline]] inline void filter_column(const Vec* g, Vec* to) {
  const Vec even_a = g[0] * kOfNear + g[2] * (kNear2 * kOfNear), odd_a = g[1] * (kNear * kOfNear);
  const Vec even_b = g[0] * kOfFar + g[2] * (kFar2 * kOfFar), odd_b = g[1] * (kFar * kOfFar);
  to[0] = g[0] * kOf0;
  to[1] = even_a + odd_a;
  to[2] = even_a - odd_a;
  to[3] = even_b + odd_b;
  to[4] = even_b - odd_b;
  to[5] = g[2];
}

[[gnu::noinline]] void filters(const float* w, int64_t channels, bool rotated, float* u,
                               int64_t position_step) {
  const int64_t step = rotated ? -kLanes : kLanes;
  if (rotated) w += 8 * kLanes;
  for (int64_t c = 0; c < channels; ++c, w += 9 * kLanes, u += kLanes) {
    transform_2d<filter_column, 3, kSide>(
        [=](int y, int x) { return load(w + (y * 3 + x) * step); },
        [=](int y, int x, Vec v) { store(u + (y * kSide + x) * position_step, v); });
  }
}

// B^T of one column: 6 from 6.
[[gnu::always_inline]] inline void image_column(const Vec* d, Vec* to) {
  const Vec even_a = d[4] - d[2] * kFar2, odd_a = (d[3] - d[1] * kFar2) * kNear;
  const Vec even_b = d[4] - d[2] * kNear2, odd_b = (d[3] - d[1] * kNear2) * kFar;
  to[0] = d[0] * (kNear2 * kFar2) + (d[4] - d[2] * (kNear2 + kFar2));
  to[1] = even_a + odd_a;
  to[2] = even_a - odd_a;
  to[3] = even_b + odd_b;
  to[4] = even_b - odd_b;
  to[5] = d[1] * (kNear2 * kFar2) + (d[5] - d[3] * (kNear2 + kFar2));
}

// Of pixels that are T, rows `row_step` numbers apart.
template <typename T>
[[gnu::noinline]] void image_tile(const char* x, int64_t row_step, float* v,
                                  int64_t position_step) {
  transform_2d<image_column, kSide, kSide>(
      [=](int r, int c) { return T::load(x + (r * row_step + c * kLanes) * T::kBytes); },
      [=](int r, int c, Vec of) { store(v + (r * kSide + c) * position_step, of); });
}

// A tile's place among all.
struct Place {
  int64_t image, y, x;

  void next(const WinogradShape& s) {
    x += kWinogradTile;
    if (x < s.out_width) return;
    x = 0;
    y += kWinogradTile;
    if (y < s.out_height) return;
    y = 0;
    ++image;
  }
};

Place place_of(const WinogradShape& s, int64_t tile) {
  const int64_t in_image = tile % s.tiles;
  return {tile / s.tiles, in_image / s.tile_columns * kWinogradTile,
          in_image % s.tile_columns * kWinogradTile};
}

template <typename T>
void images(const WinogradShape& s, WinogradImages x, WinogradTiles tiles, int64_t block,
            int64_t end, float* v, int64_t position_step) {
  const int64_t row = s.width * kLanes, plane = s.height * row;
  alignas(64) char edge[kLanes * kSide * kSide * T::kBytes];
  for (int64_t b = block; b < end; ++b) {
    Place p = place_of(s, tiles.first);
    float* to = v + b * tiles.count * kLanes;
    for (int64_t t = 0; t < tiles.count; ++t, p.next(s), to += kLanes) {
      const char* const from =
          static_cast<const char*>(x.data) + (p.image * x.step + b * plane) * T::kBytes;
      const int64_t y0 = p.y - s.top, x0 = p.x - s.left;
      if (y0 >= 0 && x0 >= 0 && y0 + kSide <= s.height && x0 + kSide <= s.width) {
        image_tile<T>(from + (y0 * row + x0 * kLanes) * T::kBytes, row, to, position_step);
        continue;
      }
      for (int r = 0; r < kSide; ++r) {
        for (int c = 0; c < kSide; ++c) {
          const bool there = y0 + r >= 0 && y0 + r < s.height && x0 + c >= 0 && x0 + c < s.width;
          T::store(
              edge + (r * kSide + c) * kLanes * T::kBytes,
              there ? T::load(from + ((y0 + r) * row + (x0 + c) * kLanes) * T::kBytes) : Vec{});
        }
      }
      image_tile<T>(edge, kSide * kLanes, to, position_step);
    }
  }
}

// A^T of one column: 4 from 6.
[[gnu::always_inline]] inline void result_column(const Vec* m, Vec* to) {
  const Vec sum_a = m[1] + m[2], less_a = m[1] - m[2];
  const Vec sum_b = m[3] + m[4], less_b = m[3] - m[4];
  to[0] = m[0] + (sum_a + sum_b);
  to[1] = less_a * kNear + less_b * kFar;
  to[2] = sum_a * kNear2 + sum_b * kFar2;
  to[3] = less_a * (kNear2 * kNear) + (less_b * (kFar2 * kFar) + m[5]);
}

[[gnu::noinline]] void result_tile(const float* m, int64_t position_step, Vec bias, float* y) {
  transform_2d<result_column, kSide, kWinogradTile>(
      [=](int r, int c) { return load(m + (r * kSide + c) * position_step); },
      [=](int r, int c, Vec of) { store(y + (r * kWinogradTile + c) * kLanes, of + bias); });
}

template <typename T>
void results(const WinogradShape& s, const float* m, int64_t position_step, WinogradTiles tiles,
             int64_t block, int64_t end, const WinogradFinish& finish, void* y, int64_t y_step) {
  const auto at = [](auto* from, int64_t n) { return from + n * T::kBytes; };
  const int64_t row = s.out_width * kLanes, plane = s.out_height * row;
  const Vec low = Vec{} + finish.low, high = Vec{} + finish.high;
  alignas(64) float tile[kWinogradTile * kWinogradTile * kLanes];
  for (int64_t b = block; b < end; ++b) {
    const Vec bias =
        finish.bias ? T::load(at(static_cast<const char*>(finish.bias), b * kLanes)) : Vec{};
    Place p = place_of(s, tiles.first);
    for (int64_t t = 0; t < tiles.count; ++t, p.next(s), m += kLanes) {
      result_tile(m, position_step, bias, tile);
      const int64_t first = b * plane + p.y * row + p.x * kLanes;
      char* const to = at(static_cast<char*>(y), p.image * y_step + first);
      const auto* add = static_cast<const char*>(finish.residual.data);
      if (add) add = at(add, p.image * finish.residual.step + first);
      const int64_t rows = s.out_height - p.y < kWinogradTile ? s.out_height - p.y : kWinogradTile;
      const int64_t columns = s.out_width - p.x < kWinogradTile ? s.out_width - p.x : kWinogradTile;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          Vec v = load(tile + (r * kWinogradTile + c) * kLanes);
          if (add) v += T::load(at(add, r * row + c * kLanes));
          v = v < low ? low : v;
          v = v > high ? high : v;
          T::store(at(to, r * row + c * kLanes), v);
        }
      }
    }
  }
}

// Of O blocks of results and N tiles: sums that stay in registers. `next` is fetched as far as u is
// read.
template <int O, int N>
[[gnu::noinline]] void sums(const float* u, int64_t u_step, const float* v, int64_t v_step,
                            int64_t in_blocks, const float* next, float* m, int64_t m_step) {
  Vec sum[O][N] = {};
  for (int64_t b = 0; b < in_blocks; ++b, v += v_step) {
    for (int64_t c = 0; c < kLanes; ++c, u += kLanes, next += kLanes) {
      Vec w[O];
#pragma GCC unroll 2
      for (int o = 0; o < O; ++o) {
        w[o] = load(u + o * u_step);
        __builtin_prefetch(next + o * u_step, 0, 2);
      }
#pragma GCC unroll 12
      for (int n = 0; n < N; ++n) {
        const Vec x = Vec{} + v[n * kLanes + c];
#pragma GCC unroll 2
        for (int o = 0; o < O; ++o) sum[o][n] += w[o] * x;
      }
    }
  }
#pragma GCC unroll 2
  for (int o = 0; o < O; ++o) {
#pragma GCC unroll 12
    for (int n = 0; n < N; ++n) store(m + o * m_step + n * kLanes, sum[o][n]);
  }
}

using Sums = void (*)(const float*, int64_t, const float*, int64_t, int64_t, const float*, float*,
                      int64_t);

constexpr int kMostTiles = kLanes == 16 ? 12 : 6;  // of two blocks in registers

template <int O>
Sums sums_of(int64_t tiles) {
  static constexpr Sums kAll[] = {
    sums<O, 1>,
    sums<O, 2>,
    sums<O, 3>,
    sums<O, 4>,
    sums<O, 5>,
    sums<O, 6>,
#if NDT_BLOCK == 16
    sums<O, 7>,
    sums<O, 8>,
    sums<O, 9>,
    sums<O, 10>,
    sums<O, 11>,
    sums<O, 12>
#endif
  };
  static_assert(sizeof kAll / sizeof *kAll == kMostTiles);
  return kAll[tiles - 1];
}

void multiply(const float* u, int64_t blocks, const float* v, int64_t in_blocks, int64_t tiles,
              const float* next, float* m) {
  const int64_t groups = (tiles + kMostTiles - 1) / kMostTiles;
  const int64_t u_step = in_blocks * kLanes * kLanes, step = tiles * kLanes;
  for (int64_t o = 0; o < blocks; o += 2) {
    const bool two = o + 1 < blocks;
    const float* const from = u + o * u_step;
    const float* const then = o + 2 < blocks ? from + 2 * u_step : next;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t first = g * tiles / groups, n = (g + 1) * tiles / groups - first;
      const Sums sums = two ? sums_of<2>(n) : sums_of<1>(n);
      sums(from, u_step, v + first * kLanes, step, in_blocks, g == 0 ? then : from,
           m + o * step + first * kLanes, step);
    }
  }
}

// A of one column: 6 from 4.
[[gnu::always_inline]] inline void gradient_column(const Vec* d, Vec* to) {
  const Vec even_a = d[0] + d[2] * kNear2, odd_a = d[1] * kNear + d[3] * (kNear2 * kNear);
  const Vec even_b = d[0] + d[2] * kFar2, odd_b = d[1] * kFar + d[3] * (kFar2 * kFar);
  to[0] = d[0];
  to[1] = even_a + odd_a;
  to[2] = even_a - odd_a;
  to[3] = even_b + odd_b;
  to[4] = even_b - odd_b;
  to[5] = d[3];
}

[[gnu::noinline]] void gradient_tile(const float* d, float* w, int64_t position_step) {
  transform_2d<gradient_column, kWinogradTile, kSide>(
      [=](int r, int c) { return load(d + (r * kWinogradTile + c) * kLanes); },
      [=](int r, int c, Vec of) { store(w + (r * kSide + c) * position_step, of); });
}

template <typename T>
void result_gradients(const WinogradShape& s, WinogradImages dy, WinogradTiles tiles, int64_t block,
                      int64_t end, float* w, int64_t position_step) {
  const int64_t row = s.out_width * kLanes, plane = s.out_height * row;
  alignas(64) float tile[kWinogradTile * kWinogradTile * kLanes];
  for (int64_t b = block; b < end; ++b) {
    Place p = place_of(s, tiles.first);
    float* to = w + b * tiles.count * kLanes;
    for (int64_t t = 0; t < tiles.count; ++t, p.next(s), to += kLanes) {
      const char* const from =
          static_cast<const char*>(dy.data) +
          (p.image * dy.step + b * plane + p.y * row + p.x * kLanes) * T::kBytes;
      for (int64_t r = 0; r < kWinogradTile; ++r) {
        for (int64_t c = 0; c < kWinogradTile; ++c) {
          const bool there = p.y + r < s.out_height && p.x + c < s.out_width;
          store(tile + (r * kWinogradTile + c) * kLanes,
                there ? T::load(from + (r * row + c * kLanes) * T::kBytes) : Vec{});
        }
      }
      gradient_tile(tile, to, position_step);
    }
  }
}

constexpr int kRows = kBlock / 2, kMostColumns = 3;  // rows times blocks of columns in registers

// Of kRows channels of results and C blocks of channels of images.
template <int C>
[[gnu::noinline]] void add_products(const float* w, const float* v, int64_t tiles, bool add,
                                    float* g) {
  Vec sum[C][kRows];
#pragma GCC unroll 3
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 8
    for (int o = 0; o < kRows; ++o) sum[c][o] = add ? load(g + (c * kLanes + o) * kLanes) : Vec{};
  }
  for (int64_t t = 0; t < tiles; ++t, w += kLanes, v += kLanes) {
    Vec x[C];
#pragma GCC unroll 3
    for (int c = 0; c < C; ++c) x[c] = load(v + c * tiles * kLanes);
#pragma GCC unroll 8
    for (int o = 0; o < kRows; ++o) {
      const Vec d = Vec{} + w[o];
#pragma GCC unroll 3
      for (int c = 0; c < C; ++c) sum[c][o] += d * x[c];
    }
  }
#pragma GCC unroll 3
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 8
    for (int o = 0; o < kRows; ++o) store(g + (c * kLanes + o) * kLanes, sum[c][o]);
  }
}

void accumulate(const float* w, int64_t blocks, const float* v, int64_t in_blocks, int64_t tiles,
                bool add, float* g) {
  constexpr decltype(&add_products<1>) kOf[] = {add_products<1>, add_products<2>, add_products<3>};
  for (int64_t c = 0; c < in_blocks; c += kMostColumns) {
    const int64_t n = in_blocks - c < kMostColumns ? in_blocks - c : kMostColumns;
    for (int64_t o = 0; o < blocks * kLanes; o += kRows) {
      const int64_t b = o / kLanes, in_block = o % kLanes;
      kOf[n - 1](w + b * tiles * kLanes + in_block, v + c * tiles * kLanes, tiles, add,
                 g + ((b * in_blocks + c) * kLanes + in_block) * kLanes);
    }
  }
}

// G^T of one column: 3 from 6.
[[gnu::always_inline]] inline void filter_gradient_column(const Vec* s, Vec* to) {
  const Vec sum_a = s[1] + s[2], less_a = s[1] - s[2];
  const Vec sum_b = s[3] + s[4], less_b = s[3] - s[4];
  to[0] = s[0] * kOf0 + (sum_a * kOfNear + sum_b * kOfFar);
  to[1] = less_a * (kNear * kOfNear) + less_b * (kFar * kOfFar);
  to[2] = sum_a * (kNear2 * kOfNear) + (sum_b * (kFar2 * kOfFar) + s[5]);
}

void filter_gradients(const float* g, int64_t position_step, int64_t in_blocks, float* dw) {
  for (int64_t c = 0; c < in_blocks; ++c) {
    for (int64_t o = 0; o < kLanes; ++o, g += kLanes) {
      float* const to = dw + (o * in_blocks + c) * 9 * kLanes;
      transform_2d<filter_gradient_column, kSide, 3>(
          [=](int y, int x) { return load(g + (y * kSide + x) * position_step); },
          [=](int y, int x, Vec v) { store(to + (y * 3 + x) * kLanes, v); });
    }
  }
}

}  // namespace

WinogradLoops winograd_loops(bool bf16) {
  return {.filters = filters,
          .images = bf16 ? images<Bf16> : images<F32>,
          .multiply = multiply,
          .results = bf16 ? results<Bf16> : results<F32>,
          .result_gradients = bf16 ? result_gradients<Bf16> : result_gradients<F32>,
          .accumulate = accumulate,
          .filter_gradients = filter_gradients};
}

}  // namespace ndtrain::onednn::NDT_ISA
