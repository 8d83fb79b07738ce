#include "backends/onednn/pool_blocks.h"

namespace ndtrain::onednn {
namespace {

void check_windows(const PoolWindow::Axis& a) {
  for (int64_t i = 0; i < a.out; ++i) {
    const PoolSpan s = window_at(a, i);
    if (s.first >= s.last) unsupported("window ", i, " holds nothing but padding");
  }
}

PoolLoop loop_for(PoolWindow::Kind kind, ndt_dtype t) {
  if (block() == 16) return pool_loop_v4(kind, t);
  return __builtin_cpu_supports("avx2") ? pool_loop_v3(kind, t) : pool_loop_v2(kind, t);
}

}  // namespace

BlockPool::BlockPool(const PoolWindow& window, ndt_dtype t)
    : window_(window), loop_(loop_for(window.kind, t)) {
  if (!loop_) unsupported("it is not for dtype ", name_of(t));
  check_windows(window.rows);
  check_windows(window.columns);
}

size_t BlockPool::scratch() const {
  return static_cast<size_t>(window_.columns.in * block()) * sizeof(float);
}

void BlockPool::run(const void* x, void* y, int64_t blocks, void* scratch) const {
  loop_(window_, x, y, blocks, static_cast<float*>(scratch));
}

}  // namespace ndtrain::onednn
