// Shrink, f32, blocked or channels-last: there to keep the layout that convolutions give. The
// library has no such function.
#include <algorithm>

#include "backends/onednn/ops.h"

namespace ndtrain::onednn {
namespace {

constexpr int64_t kTask = 4096;  // elements

// Where its input lies, and its output.
Layout check(const Node& node) {
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  if (x.dtype != NDT_F32) unsupported("it is not f32");
  if (node.f("lambd") < 0) unsupported("zeros in padding lanes would not stay zero");
  const Layout layout = layout_of(x, "input 0");
  if (layout == Layout::kPlain) unsupported("its input is plain");
  if (!lies(y, layout) || has_gaps(x, layout) || has_gaps(y, layout)) {
    unsupported("its input and output do not lie alike without gaps");
  }
  return layout;
}

}  // namespace

std::unique_ptr<Kernel> prepare_shrink(const ndt_device&, const Node& node) {
  const int64_t n = node.in(0).dims[0] * image_extent(node.in(0), check(node));
  const auto lambd = static_cast<float>(node.f("lambd")), bias = static_cast<float>(node.f("bias"));
  auto k = kernel([=](const void* const* in, void* const* out, void*) {
    const auto* x = static_cast<const float*>(in[0]);
    auto* y = static_cast<float*>(out[0]);
    parallel_tasks((n + kTask - 1) / kTask, threads(), [&](int64_t task, int) {
      const int64_t end = std::min(n, (task + 1) * kTask);
      for (int64_t i = task * kTask; i < end; ++i) {
        y[i] = x[i] < -lambd ? x[i] + bias : (x[i] > lambd ? x[i] - bias : 0);
      }
    });
  });
  k->in_place_inputs = 1;
  return k;
}

void prefer_shrink(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  const Layout layout = layout_of(in[0], "input 0");
  set_layout(in[0], layout);
  set_layout(out[0], layout);
  const ndt_node wanted = node.with(in, out);
  check(Node(wanted));
}

}  // namespace ndtrain::onednn
