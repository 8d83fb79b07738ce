#include "backends/onednn/pool_blocks.h"

namespace ndtrain::onednn {
namespace {

void check_axis(const PoolWindow::Axis& a) {
  for (int64_t i = 0; i < a.out; ++i) {
    const PoolSpan s = window_at(a, i);
    if (s.first >= s.last) unsupported("window ", i, " holds nothing but padding");
  }
}

PoolLoop loop_for(PoolWindow::Kind kind, ndt_dtype t) {
  if (block() == 16) return v4::pool_loop(kind, t);
  return __builtin_cpu_supports("avx2") ? v3::pool_loop(kind, t) : v2::pool_loop(kind, t);
}

}  // namespace

void check_windows(const PoolWindow& w) {
  check_axis(w.rows);
  check_axis(w.columns);
}

PoolWindow pool_window(const Node& node, const ndt_tensor_type& x, const ndt_tensor_type& y) {
  using Kind = PoolWindow::Kind;
  PoolWindow w{.kind = Kind::kMax,
               .rows = {.in = x.dims[2], .out = y.dims[2]},
               .columns = {.in = x.dims[3], .out = y.dims[3]}};
  if (node.op() == "GlobalAveragePool") {
    w.kind = Kind::kAverage;
    w.rows.kernel = w.rows.stride = w.rows.in;
    w.columns.kernel = w.columns.stride = w.columns.in;
    return w;
  }
  if (node.has_attr("count_include_pad")) {
    w.kind = node.i("count_include_pad") != 0 ? Kind::kAverageWithPadding : Kind::kAverage;
  }
  for (const int64_t d : node.ints("dilations")) {
    if (d != 1) unsupported("dilation ", d, " is not 1");
  }
  const auto kernel = node.ints("kernel_shape"), strides = node.ints("strides"),
             pads = node.ints("pads");
  if (kernel.size() != 2 || strides.size() != 2 || pads.size() != 4) {
    invalid("kernel_shape, strides or pads are not for two spatial dims");
  }
  for (size_t d = 0; d < 2; ++d) {
    PoolWindow::Axis& a = d == 0 ? w.rows : w.columns;
    a.kernel = kernel[d];
    a.stride = strides[d];
    a.begin = pads[d];
    if (w.kind == Kind::kAverageWithPadding && a.end() > pads[2 + d]) {
      unsupported("ceil_mode counts cells beyond the padding");
    }
  }
  return w;
}

BlockPool::BlockPool(const PoolWindow& window, ndt_dtype t)
    : window_(window), loop_(loop_for(window.kind, t)) {
  if (!loop_) unsupported("it is not for dtype ", name_of(t));
  check_windows(window);
}

size_t BlockPool::scratch() const {
  return static_cast<size_t>(window_.columns.in * block()) * sizeof(float);
}

void BlockPool::run(const void* x, void* y, int64_t blocks, void* scratch) const {
  loop_(window_, x, y, blocks, static_cast<float*>(scratch));
}

}  // namespace ndtrain::onednn
