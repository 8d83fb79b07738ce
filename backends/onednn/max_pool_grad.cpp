// MaxPoolGrad, f32 and bf16, blocked: a block of channels of an image a task.
#include "backends/onednn/max_pool_grad_loops.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/pool_blocks.h"
#include "backends/onednn/sliced.h"

namespace ndtrain::onednn {
namespace {

MaxPoolGradLoop grad_loop_for(ndt_dtype t) {
  if (block() == 16) return v4::max_pool_grad_loop(t);
  return __builtin_cpu_supports("avx2") ? v3::max_pool_grad_loop(t) : v2::max_pool_grad_loop(t);
}

class MaxPoolGrad final : public Kernel {
 public:
  explicit MaxPoolGrad(const Node& node)
      : window_(pool_window(node, node.in(1), node.in(0))),
        loop_(grad_loop_for(node.in(0).dtype)),
        blocks_((node.out().dims[1] + block() - 1) / block()),
        tasks_(node.out().dims[0] * blocks_),
        slots_(static_cast<int>(std::min<int64_t>(threads(), tasks_))) {
    const int64_t size = size_of(node.in(0).dtype) * block();
    in_ = window_.rows.in * window_.columns.in * size;
    out_ = window_.rows.out * window_.columns.out * size;
    scratch_ = whole_lines(static_cast<size_t>(window_.rows.out * window_.columns.out * block()) *
                           sizeof(int32_t));
    workspace_bytes = static_cast<size_t>(slots_) * scratch_;
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    parallel_tasks(tasks_, slots_, [&](int64_t task, int slot) {
      char* const winners = static_cast<char*>(workspace) + static_cast<size_t>(slot) * scratch_;
      loop_(window_, static_cast<const char*>(in[0]) + task * out_,
            static_cast<const char*>(in[1]) + task * in_, static_cast<char*>(out[0]) + task * in_,
            1, reinterpret_cast<int32_t*>(winners));
    });
  }

 private:
  PoolWindow window_;
  MaxPoolGradLoop loop_;
  int64_t blocks_, tasks_;
  int slots_;
  int64_t in_, out_;  // bytes of a block of x and of dy
  size_t scratch_;
};

void check(const Node& node) {
  check_float(node);
  for (const ndt_tensor_type* t : {&node.in(0), &node.in(1), &node.out()}) {
    if (t->rank != 4 || count(*t) == 0) unsupported("it is empty or has rank ", t->rank);
    if (!lies(*t, Layout::kBlocked) || has_gaps(*t, Layout::kBlocked)) {
      unsupported("it is not blocked without gaps");
    }
  }
}

}  // namespace

std::unique_ptr<Kernel> prepare_max_pool_grad(const ndt_device&, const Node& node) {
  check(node);
  return std::make_unique<MaxPoolGrad>(node);
}

void prefer_max_pool_grad(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  if (in[0].rank != 4) unsupported("its input has rank ", in[0].rank, ", not 4");
  if (!lies(in[0], Layout::kBlocked) && !lies(in[1], Layout::kBlocked)) {
    unsupported("nothing that it reads is blocked");
  }
  for (ndt_tensor_type* t : {&in[0], &in[1], &out[0]}) set_layout(*t, Layout::kBlocked);
  const ndt_node wanted = node.with(in, out);
  check(Node(wanted));
  pool_window(node, node.in(1), node.in(0));
}

}  // namespace ndtrain::onednn
