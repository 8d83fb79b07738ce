#include "backends/cpu/kernels/attention_tiles.h"

#include "backends/cpu/gemm/transpose.h"
#include "backends/cpu/kernels/sizes.h"

namespace ndtrain::cpu {

namespace {

template <typename T>
Vec load_floats(const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    return load(from);
  } else {
    Vec v;
    for (int i = 0; i < kLanes; ++i) v[i] = static_cast<float>(from[i]);
    return v;
  }
}

// Adds rows of kLanes keys one behind the other, `step` apart, to scores of their queries.
template <typename T>
void add_upright(const T* from, int64_t step, int64_t queries, float* scores) {
  Vec v[kLanes] = {};
#pragma GCC unroll 16
  for (int j = 0; j < kLanes; ++j) {
    if (j < queries) v[j] = load_floats(from + j * step);
  }
  transpose(v);
#pragma GCC unroll 16
  for (int t = 0; t < kLanes; ++t) {
    float* to = scores + int64_t{t} * kTileCols;
    store(to, load(to) + v[t]);
  }
}

}  // namespace

template <typename T>
void AttentionMask::add(const T* mask, int64_t head, int64_t panel, int64_t key, int64_t keys,
                        float* scores) const {
  const T* from =
      mask + steps_.first(head, shape_) + panel * kTileCols * steps_.query + key * steps_.key;
  const int64_t n = shape_.queries_of(panel);
  int64_t t = 0;
  for (; steps_.key == 1 && t + kLanes <= keys; t += kLanes) {
    for (int64_t j = 0; j < n; j += kLanes) {
      add_upright(from + j * steps_.query + t, steps_.query, n - j, scores + t * kTileCols + j);
    }
  }
  for (; t < keys; ++t) {
    for (int64_t j = 0; j < n; ++j) {
      scores[t * kTileCols + j] += static_cast<float>(from[t * steps_.key + j * steps_.query]);
    }
  }
}

template void AttentionMask::add(const float*, int64_t, int64_t, int64_t, int64_t, float*) const;
template void AttentionMask::add(const F16*, int64_t, int64_t, int64_t, int64_t, float*) const;
template void AttentionMask::add(const BF16*, int64_t, int64_t, int64_t, int64_t, float*) const;

int64_t FloatParts::add(int64_t floats) {
  const int64_t at = floats_;
  floats_ += whole_lines(floats);
  return at;
}

void multiply_panel(const float* rows_packed, const RowPanels& rows, int64_t k, const float* panel,
                    int64_t lanes, float* to, bool add) {
  const GemmBlock block{rows, 0, rows.count(), 0, lanes, to};
  const GemmStep step{rows_packed, k, 0, k, panel, 0, true, true};
  multiply(block, step, {to, kTileCols, 0, kTileCols}, {.residual = add ? to : nullptr});
}

template <typename T>
void store_upright(const float* x, int64_t n, const float* factor, int64_t queries, T* y,
                   int64_t step) {
  for (int64_t j0 = 0; j0 < queries; j0 += kLanes) {
    const Vec by = load(factor + j0);
    const int64_t rows = std::min<int64_t>(kLanes, queries - j0);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      Vec v[kLanes];
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; ++r) v[r] = load(x + (i + r) * kTileCols + j0) * by;
      transpose(v);
#pragma GCC unroll 16
      for (int j = 0; j < kLanes; ++j) {
        if (j >= rows) break;
        T* to = y + (j0 + j) * step + i;
        if constexpr (std::is_same_v<T, float>) {
          store(to, v[j]);
        } else {
          for (int lane = 0; lane < kLanes; ++lane) to[lane] = T(v[j][lane]);
        }
      }
    }
    for (; i < n; ++i) {
      for (int64_t j = 0; j < rows; ++j) {
        y[(j0 + j) * step + i] = T(x[i * kTileCols + j0 + j] * factor[j0 + j]);
      }
    }
  }
}

template void store_upright(const float*, int64_t, const float*, int64_t, float*, int64_t);
template void store_upright(const float*, int64_t, const float*, int64_t, F16*, int64_t);
template void store_upright(const float*, int64_t, const float*, int64_t, BF16*, int64_t);

}  // namespace ndtrain::cpu
