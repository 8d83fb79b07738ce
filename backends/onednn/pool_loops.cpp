// The loops of BlockPool, see block_lanes.inc.
#include "backends/onednn/block_lanes.inc"
#include "backends/onednn/pool_window.h"

namespace ndtrain::onednn::NDT_ISA {
namespace {

struct Max {
  static Vec join(Vec y, Vec x) { return x > y ? x : y; }
  static Vec finish(Vec y, float) { return y; }
};

struct Average {
  static Vec join(Vec y, Vec x) { return y + x; }
  static Vec finish(Vec y, float pixels) { return y / pixels; }
};

// The sum, or the maximum, of `n` vectors that lie `step` bytes apart.
template <typename Join, typename T>
Vec join(const char* x, int64_t n, int64_t step) {
  Vec y = T::load(x);
  for (int64_t k = 1; k < n; ++k) y = Join::join(y, T::load(x + k * step));
  return y;
}

template <typename Join, typename T>
void join_rows(const char* x, int64_t rows, int64_t columns, char* joined) {
  constexpr int64_t kPixel = kBlock * T::kBytes;
  for (int64_t i = 0; i < columns; ++i, x += kPixel, joined += sizeof(Vec)) {
    const int64_t step = columns * kPixel;
    F32::store(joined, rows == 3 ? join<Join, T>(x, 3, step) : join<Join, T>(x, rows, step));
  }
}

template <typename Join, typename T>
void pool(const PoolWindow& w, const void* x, void* y, int64_t blocks, float* joined) {
  constexpr int64_t kPixel = kBlock * T::kBytes;
  char* const row = reinterpret_cast<char*>(joined);
  const char* plane = static_cast<const char*>(x);
  char* to = static_cast<char*>(y);
  for (int64_t b = 0; b < blocks; ++b, plane += w.rows.in * w.columns.in * kPixel) {
    for (int64_t r = 0; r < w.rows.out; ++r) {
      const PoolSpan rows = window_at(w.rows, r);
      const int64_t high = rows.last - rows.first;
      join_rows<Join, T>(plane + rows.first * w.columns.in * kPixel, high, w.columns.in, row);
      for (int64_t c = 0; c < w.columns.out; ++c, to += kPixel) {
        const PoolSpan columns = window_at(w.columns, c);
        const int64_t wide = columns.last - columns.first;
        const char* const from = row + columns.first * static_cast<int64_t>(sizeof(Vec));
        const Vec all = wide == 3 ? join<Join, F32>(from, 3, sizeof(Vec))
                                  : join<Join, F32>(from, wide, sizeof(Vec));
        const int64_t pixels = w.kind == PoolWindow::Kind::kAverageWithPadding
                                   ? w.rows.kernel * w.columns.kernel
                                   : high * wide;
        T::store(to, Join::finish(all, static_cast<float>(pixels)));
      }
    }
  }
}

}  // namespace

PoolLoop pool_loop(PoolWindow::Kind kind, ndt_dtype t) {
  const bool max = kind == PoolWindow::Kind::kMax;
  if (t == NDT_F32) return max ? pool<Max, F32> : pool<Average, F32>;
  if (t == NDT_BF16) return max ? pool<Max, Bf16> : pool<Average, Bf16>;
  return nullptr;
}

}  // namespace ndtrain::onednn::NDT_ISA
