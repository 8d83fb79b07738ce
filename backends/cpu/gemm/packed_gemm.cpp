#include "backends/cpu/gemm/packed_gemm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/gemm/transpose.h"

namespace ndtrain::cpu {
namespace {

// Where a whole tile of C goes, and through what. Biases and residual as in Epilogue, from this
// tile's first row and column on.
struct TilePlace {
  float* y;
  int64_t row_step;
  const float *row_bias, *col_bias, *residual;
  bool clamp;
  float low, high;
};

// sum = a b over `k`, + from where there is one: to `to`, or finished to `place` when it is there.
// `from` and `to` are [R][kTileCols].
template <int R, int V>
void tile(int64_t k, const float* a, const float* b, const float* from, float* to,
          const TilePlace* place) {
  Vec sum[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[r][v] = Vec{};
  }
  for (; k > 0; --k, a += R, b += kTileCols) {
    Vec col[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) col[v] = load(b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec row = splat(a[r]);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[r][v] += row * col[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      Vec& s = sum[r][v];
      if (from) s += load(from + r * kTileCols + v * kLanes);
      if (!place) {
        store(to + r * kTileCols + v * kLanes, s);
        continue;
      }
      const int64_t at = r * place->row_step + v * kLanes;
      if (place->row_bias) s += splat(place->row_bias[r]);
      if (place->col_bias) s += load(place->col_bias + v * kLanes);
      if (place->residual) s += load(place->residual + at);
      if (place->clamp) s = at_most(at_least(s, splat(place->low)), splat(place->high));
      store(place->y + at, s);
    }
  }
}

using Tile = void (*)(int64_t, const float*, const float*, const float*, float*, const TilePlace*);

template <int V, int... R>
constexpr std::array<Tile, sizeof...(R)> tiles(std::integer_sequence<int, R...>) {
  return {tile<R + 1, V>...};
}

constexpr auto kHeights = std::make_integer_sequence<int, kTileRows>{};
constexpr std::array<Tile, kTileRows> kNarrow = tiles<1>(kHeights), kWide = tiles<2>(kHeights);

Tile tile_for(int height, int64_t cols) {
  return (cols > kLanes ? kWide : kNarrow)[static_cast<size_t>(height - 1)];
}

// Null unless `cols` columns from `col` on are whole vectors and lie side by side.
const TilePlace* place_of(int64_t row, int64_t col, int64_t cols, const Output& output,
                          const Epilogue& e, TilePlace& place) {
  if ((cols != kTileCols && cols != kLanes) || col % output.run + cols > output.run) return nullptr;
  const int64_t at = col / output.run * output.run_step + row * output.row_step + col % output.run;
  place = {output.base + at,
           output.row_step,
           e.row_bias ? e.row_bias + row : nullptr,
           e.col_bias ? e.col_bias + col : nullptr,
           e.residual ? e.residual + at : nullptr,
           e.clamp,
           e.low,
           e.high};
  return &place;
}

// `n` finished sums of one row to their place in C, beginning with those from `i` on, N at a time.
template <int N>
void finish_by(int64_t& i, int64_t n, const float* sum, const float* row_bias,
               const float* col_bias, const float* residual, const Epilogue& e, float* y) {
  using Some = typename VecOf<N>::Loose;
  const auto some = [](const float* p) { return *reinterpret_cast<const Some*>(p); };
  for (; i + N <= n; i += N) {
    Some v = some(sum + i);
    if (row_bias) v += *row_bias;
    if (col_bias) v += some(col_bias + i);
    if (residual) v += some(residual + i);
    if (e.clamp) {
      v = v < e.low ? e.low - Some{} : v;
      v = v > e.high ? e.high - Some{} : v;
    }
    *reinterpret_cast<Some*>(y + i) = v;
  }
}

void finish(const float* sum, int64_t n, const float* row_bias, const float* col_bias,
            const float* residual, const Epilogue& e, float* y) {
  int64_t i = 0;
  finish_by<kLanes>(i, n, sum, row_bias, col_bias, residual, e, y);
  if constexpr (kLanes > 8) finish_by<8>(i, n, sum, row_bias, col_bias, residual, e, y);
  if constexpr (kLanes > 4) finish_by<4>(i, n, sum, row_bias, col_bias, residual, e, y);
  finish_by<2>(i, n, sum, row_bias, col_bias, residual, e, y);
  for (; i < n; ++i) {
    float v = sum[i];
    if (row_bias) v += *row_bias;
    if (col_bias) v += col_bias[i];
    if (residual) v += residual[i];
    if (e.clamp) {
      v = v < e.low ? e.low : v;
      v = v > e.high ? e.high : v;
    }
    y[i] = v;
  }
}

void finish_tile(const float* sums, int64_t row, int height, int64_t col, int64_t cols,
                 const Output& output, const Epilogue& e) {
  for (int64_t done = 0; done < cols;) {
    const int64_t c = col + done, in_run = c % output.run;
    const int64_t n = std::min(cols - done, output.run - in_run);
    int64_t place = c / output.run * output.run_step + row * output.row_step + in_run;
    for (int r = 0; r < height; ++r, place += output.row_step) {
      finish(sums + r * kTileCols + done, n, e.row_bias ? e.row_bias + row + r : nullptr,
             e.col_bias ? e.col_bias + c : nullptr, e.residual ? e.residual + place : nullptr, e,
             output.base + place);
    }
    done += n;
  }
}

}  // namespace

void finish_row(const float* sums, int64_t n, int64_t r, int64_t place, const Epilogue& e,
                float* y) {
  finish(sums, n, e.row_bias ? e.row_bias + r : nullptr, nullptr,
         e.residual ? e.residual + place : nullptr, e, y + place);
}

namespace {

void store_some(float* to, Vec v, int n) {
  alignas(64) float all[kLanes];
  store(all, v);
  std::copy_n(all, n, to);
}

// A panel of `h` <= kLanes rows that lie along k, to [k][h]. A whole vector is stored where what is
// too much of it lies in the next rows of the panel, which are written later.
void pack_along(const float* from, int64_t row_step, int64_t k, int h, float* panel) {
  const int64_t last_whole = k - (kLanes + h - 1) / h;
  int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes) {
    Vec v[kLanes];
#pragma GCC unroll 16
    for (int r = 0; r < kLanes; ++r) v[r] = load(from + std::min(r, h - 1) * row_step + i);
    transpose(v);
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j) {
      if (i + j <= last_whole) {
        store(panel + (i + j) * h, v[j]);
      } else {
        store_some(panel + (i + j) * h, v[j], h);
      }
    }
  }
  for (; i < k; ++i) {
    for (int r = 0; r < h; ++r) panel[i * h + r] = from[r * row_step + i];
  }
}

// A panel of `h` rows that lie across k, likewise: what is too much was read from the next step.
void pack_across(const float* from, int64_t k_step, int64_t k, int h, float* panel) {
  int64_t i = 0;
  if (k_step >= kLanes) {
    for (; i <= k - (kLanes + h - 1) / h; ++i) store(panel + i * h, load(from + i * k_step));
  }
  for (; i < k; ++i) std::copy_n(from + i * k_step, h, panel + i * h);
}

// A panel of `n` columns that lie along k.
void pack_cols_along(const float* from, int64_t col_step, int64_t k, int64_t n, float* panel) {
  int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes) {
    for (int64_t c = 0; c < kTileCols; c += kLanes) {
      Vec v[kLanes];
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; ++r) {
        v[r] = c + r < n ? load(from + (c + r) * col_step + i) : Vec{};
      }
      transpose(v);
#pragma GCC unroll 16
      for (int j = 0; j < kLanes; ++j) store(panel + (i + j) * kTileCols + c, v[j]);
    }
  }
  for (; i < k; ++i) {
    for (int64_t c = 0; c < kTileCols; ++c) {
      panel[i * kTileCols + c] = c < n ? from[c * col_step + i] : 0.0f;
    }
  }
}

}  // namespace

void pack_rows(const float* a, int64_t row_step, int64_t k_step, int64_t k, const RowPanels& rows,
               int64_t first_panel, int64_t last_panel, float* to) {
  for (int64_t p = first_panel; p < last_panel; ++p) {
    const int h = rows.height(p);
    float* panel = to + (rows.begin(p) - rows.begin(first_panel)) * k;
    const float* from = a + rows.begin(p) * row_step;
    if (kTileRows <= kLanes && k_step == 1) {
      pack_along(from, row_step, k, h, panel);
      continue;
    }
    if (kTileRows <= kLanes && row_step == 1) {
      pack_across(from, k_step, k, h, panel);
      continue;
    }
    for (int64_t i = 0; i < k; ++i) {
      for (int r = 0; r < h; ++r) panel[i * h + r] = from[r * row_step + i * k_step];
    }
  }
}

void pack_cols(const float* b, int64_t k_step, int64_t col_step, int64_t k, int64_t cols,
               int64_t first_panel, int64_t last_panel, float* to) {
  for (int64_t p = first_panel; p < last_panel; ++p) {
    const int64_t n = std::min<int64_t>(kTileCols, cols - p * kTileCols);
    const float* from = b + p * kTileCols * col_step;
    float* panel = to + (p - first_panel) * k * kTileCols;
    if (col_step == 1) {
      for (int64_t i = 0; i < k; ++i, panel += kTileCols, from += k_step) {
        if (n == kTileCols) {
          store(panel, load(from));
          store(panel + kLanes, load(from + kLanes));
        } else {
          std::fill(std::copy(from, from + n, panel), panel + kTileCols, 0.0f);
        }
      }
      continue;
    }
    if (k_step == 1) {
      pack_cols_along(from, col_step, k, n, panel);
      continue;
    }
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t c = 0; c < kTileCols; ++c) {
        panel[i * kTileCols + c] = c < n ? from[i * k_step + c * col_step] : 0.0f;
      }
    }
  }
}

void multiply(const GemmBlock& block, const GemmStep& step, const Output& output,
              const Epilogue& epilogue) {
  const int64_t panels = col_panels(block.cols), base_row = block.rows.begin(block.first_panel);
  alignas(64) float sums[kTileRows * kTileCols];
  for (int64_t p = block.first_panel; p < block.last_panel; ++p) {
    const int64_t row = block.rows.begin(p);
    const int height = block.rows.height(p);
    const float* a = step.a + row * step.a_k + step.k0 * height;
    float* spilled = block.partial + (row - base_row) * panels * kTileCols;
    for (int64_t j = 0; j < panels; ++j, spilled += height * kTileCols) {
      const int64_t cols = std::min<int64_t>(kTileCols, block.cols - j * kTileCols);
      const int64_t col = block.first_col + j * kTileCols;
      TilePlace whole;
      const TilePlace* place =
          step.last ? place_of(row, col, cols, output, epilogue, whole) : nullptr;
      tile_for(height, cols)(step.k1 - step.k0, a, step.b + j * step.b_step,
                             step.first ? nullptr : spilled, step.last ? sums : spilled, place);
      if (step.last && !place) finish_tile(sums, row, height, col, cols, output, epilogue);
    }
  }
}

}  // namespace ndtrain::cpu
