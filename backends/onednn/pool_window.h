// A window that slides over the rows and columns of blocked images, and the loops that pool under
// it, one build for each instruction set.
#pragma once

#include <cstdint>

#include "framework/runtime/backend_abi.h"

namespace ndtrain::onednn {

struct PoolWindow {
  enum class Kind { kMax, kAverage, kAverageWithPadding };  // kAverage counts no padding
  struct Axis {
    int64_t in, out, kernel, stride, begin;  // `begin`: padding before it

    // How far windows reach beyond it; with ceil_mode that may be further than the padding.
    int64_t end() const {
      const int64_t past = (out - 1) * stride + kernel - in - begin;
      return past > 0 ? past : 0;
    }
  };
  Kind kind;
  Axis rows, columns;
};

// What of window `i` is no padding. Static: each build of the loops keeps its own.
struct PoolSpan {
  int64_t first, last;
};
static inline PoolSpan window_at(const PoolWindow::Axis& a, int64_t i) {
  const int64_t top = i * a.stride - a.begin, end = top + a.kernel;
  return {top < 0 ? 0 : top, end < a.in ? end : a.in};
}

// Pools `blocks` of channels of one image, dtype as asked for; no window without a pixel. `joined`
// has room for a row of pixels.
using PoolLoop = void (*)(const PoolWindow& w, const void* x, void* y, int64_t blocks,
                          float* joined);

// Null for other dtypes than f32 and bf16.
namespace v2 {  // blocks of 8 channels
PoolLoop pool_loop(PoolWindow::Kind kind, ndt_dtype t);
}
namespace v3 {  // of 8, needs x86-64-v3
PoolLoop pool_loop(PoolWindow::Kind kind, ndt_dtype t);
}
namespace v4 {  // of 16, needs x86-64-v4
PoolLoop pool_loop(PoolWindow::Kind kind, ndt_dtype t);
}

}  // namespace ndtrain::onednn
