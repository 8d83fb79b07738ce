#include "backends/onednn/max_pool_grad_loops.h"

#include "backends/onednn/block_lanes.inc"

namespace ndtrain::onednn::NDT_ISA {
namespace {

// The windows that reach row or column `i`.
PoolSpan windows_of(const PoolWindow::Axis& a, int64_t i) {
  const int64_t last = (i + a.begin) / a.stride + 1, past = i + a.begin - a.kernel;
  const int64_t first = past < 0 ? 0 : past / a.stride + 1;
  return {first, last < a.out ? last : a.out};
}

// The place in its plane of each window's first maximum; -1: it has none, as of NaN.
template <typename T>
void find_winners(const PoolWindow& w, const char* x, int32_t* winners) {
  constexpr int64_t kPixel = kBlock * T::kBytes;
  constexpr float kInfinity = __builtin_inff();
  for (int64_t r = 0; r < w.rows.out; ++r) {
    const PoolSpan rows = window_at(w.rows, r);
    for (int64_t c = 0; c < w.columns.out; ++c, winners += kBlock) {
      const PoolSpan columns = window_at(w.columns, c);
      Vec top = Vec{} - kInfinity;
      Bits from = Bits{} - 1;
      for (int64_t i = rows.first; i < rows.last; ++i) {
        for (int64_t j = columns.first; j < columns.last; ++j) {
          const int64_t at = i * w.columns.in + j;
          const Vec v = T::load(x + at * kPixel);
          const Bits more = v > top;
          top = more ? v : top;
          from = more ? Bits{} + static_cast<int32_t>(at) : from;
        }
      }
      *reinterpret_cast<Bits*>(winners) = from;
    }
  }
}

template <typename T>
void collect(const PoolWindow& w, const char* dy, const int32_t* winners, char* dx) {
  constexpr int64_t kPixel = kBlock * T::kBytes;
  int32_t at = 0;
  for (int64_t r = 0; r < w.rows.in; ++r) {
    const PoolSpan rows = windows_of(w.rows, r);
    for (int64_t c = 0; c < w.columns.in; ++c, ++at, dx += kPixel) {
      const PoolSpan columns = windows_of(w.columns, c);
      Vec sum{};
      for (int64_t i = rows.first; i < rows.last; ++i) {
        for (int64_t j = columns.first; j < columns.last; ++j) {
          const int64_t o = i * w.columns.out + j;
          const Bits won = *reinterpret_cast<const Bits*>(winners + o * kBlock) == at;
          sum += won ? T::load(dy + o * kPixel) : Vec{};
        }
      }
      T::store(dx, sum);
    }
  }
}

template <typename T>
void max_pool_grad(const PoolWindow& w, const void* dy, const void* x, void* dx, int64_t blocks,
                   int32_t* winners) {
  const int64_t in = w.rows.in * w.columns.in * kBlock * T::kBytes;
  const int64_t out = w.rows.out * w.columns.out * kBlock * T::kBytes;
  for (int64_t b = 0; b < blocks; ++b) {
    find_winners<T>(w, static_cast<const char*>(x) + b * in, winners);
    collect<T>(w, static_cast<const char*>(dy) + b * out, winners, static_cast<char*>(dx) + b * in);
  }
}

}  // namespace

MaxPoolGradLoop max_pool_grad_loop(ndt_dtype t) {
  if (t == NDT_F32) return max_pool_grad<F32>;
  return t == NDT_BF16 ? max_pool_grad<Bf16> : nullptr;
}

}  // namespace ndtrain::onednn::NDT_ISA
