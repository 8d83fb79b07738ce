#include "backends/cpu/gemm/packed_gemm.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ndtrain::cpu {
namespace {

// to = from + a b over `k`; from is null for zeros. Both are [R][kTileCols].
template <int R, int V>
void tile(int64_t k, const float* a, const float* b, const float* from, float* to) {
  Vec sum[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[r][v] = from ? load(from + r * kTileCols + v * kLanes) : Vec{};
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
    for (int v = 0; v < V; ++v) store(to + r * kTileCols + v * kLanes, sum[r][v]);
  }
}

using Tile = void (*)(int64_t, const float*, const float*, const float*, float*);

template <int V, int... R>
constexpr std::array<Tile, sizeof...(R)> tiles(std::integer_sequence<int, R...>) {
  return {tile<R + 1, V>...};
}

constexpr auto kHeights = std::make_integer_sequence<int, kTileRows>{};
constexpr std::array<Tile, kTileRows> kNarrow = tiles<1>(kHeights), kWide = tiles<2>(kHeights);

Tile tile_for(int height, int64_t cols) {
  return (cols > kLanes ? kWide : kNarrow)[static_cast<size_t>(height - 1)];
}

// `n` finished sums of one row to their place in C.
void finish(const float* sum, int64_t n, float bias, bool has_bias, const float* col_bias,
            const float* residual, const Epilogue& e, float* y) {
  const Vec low = splat(e.low), high = splat(e.high), row_bias = splat(bias);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Vec v = load(sum + i);
    if (has_bias) v += row_bias;
    if (col_bias) v += load(col_bias + i);
    if (residual) v += load(residual + i);
    if (e.clamp) v = at_most(at_least(v, low), high);
    store(y + i, v);
  }
  for (; i < n; ++i) {
    float v = sum[i];
    if (has_bias) v += bias;
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
      finish(sums + r * kTileCols + done, n, e.row_bias ? e.row_bias[row + r] : 0, e.row_bias,
             e.col_bias ? e.col_bias + c : nullptr, e.residual ? e.residual + place : nullptr, e,
             output.base + place);
    }
    done += n;
  }
}

}  // namespace

void finish_row(const float* sums, int64_t n, int64_t r, int64_t place, const Epilogue& e,
                float* y) {
  finish(sums, n, e.row_bias ? e.row_bias[r] : 0, e.row_bias, nullptr,
         e.residual ? e.residual + place : nullptr, e, y + place);
}

void pack_rows(const float* a, int64_t row_step, int64_t k_step, int64_t k, const RowPanels& rows,
               int64_t first_panel, int64_t last_panel, float* to) {
  for (int64_t p = first_panel; p < last_panel; ++p) {
    const int h = rows.height(p);
    float* panel = to + rows.begin(p) * k;
    const float* from = a + rows.begin(p) * row_step;
    constexpr int64_t kStrip = 16;  // a cache line of every row at a time
    for (int64_t i0 = 0; i0 < k; i0 += kStrip) {
      const int64_t i1 = std::min(k, i0 + kStrip);
      for (int r = 0; r < h; ++r) {
        for (int64_t i = i0; i < i1; ++i) panel[i * h + r] = from[r * row_step + i * k_step];
      }
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
    constexpr int64_t kStrip = 16;
    for (int64_t i0 = 0; i0 < k; i0 += kStrip) {
      const int64_t i1 = std::min(k, i0 + kStrip);
      for (int64_t c = 0; c < kTileCols; ++c) {
        for (int64_t i = i0; i < i1; ++i) {
          panel[i * kTileCols + c] = c < n ? from[i * k_step + c * col_step] : 0.0f;
        }
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
      tile_for(height, cols)(step.k1 - step.k0, a, step.b + j * step.b_step,
                             step.first ? nullptr : spilled, step.last ? sums : spilled);
      if (step.last) {
        finish_tile(sums, row, height, block.first_col + j * kTileCols, cols, output, epilogue);
      }
    }
  }
}

}  // namespace ndtrain::cpu
