// MaxPool and AveragePool where channels lie together, and GlobalAveragePool: blocked by loops of
// our own, channels-last by the library.
#include "backends/onednn/ops.h"
#include "backends/onednn/pool_blocks.h"
#include "backends/onednn/sliced.h"

namespace ndtrain::onednn {
namespace {

using Kind = PoolWindow::Kind;

void check(const Node& node) {
  if (node.in(0).rank != 4) unsupported("its input has rank ", node.in(0).rank, ", not 4");
  if (count(node.in(0)) == 0 || count(node.out()) == 0) unsupported("it is empty");
  if (node.has_output(1)) unsupported("it is asked for indices");
  check_float(node, node.op() == "MaxPool");
}

// One pixel of whole blocks of channels lies the same, plain or blocked.
bool same_bytes(const ndt_tensor_type& y) {
  return lies(y, Layout::kPlain) && y.dims[2] * y.dims[3] == 1 && y.dims[1] % block() == 0;
}

struct AskedPool {
  PoolWindow window;
  Layout layout;
};

AskedPool ask_pool(const Node& node) {
  check(node);
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  const AskedPool a{pool_window(node, node.in(0), node.out()), layout_of(x, "input 0")};
  if (a.layout == Layout::kPlain) unsupported("its input is plain");
  if (!lies(y, a.layout) && !(a.layout == Layout::kBlocked && same_bytes(y))) {
    unsupported("its output does not lie as its input");
  }
  return a;
}

// A few blocks of an image at a time.
class PooledBlocks final : public Kernel {
 public:
  PooledBlocks(const Node& node, const PoolWindow& window)
      : pool_(window, node.in(0).dtype),
        images_(node.in(0).dims[0]),
        x_step_(input_port(0, node.in(0), Layout::kBlocked).step),
        y_step_(output_port(0, node.out(), Layout::kBlocked).step),
        x_block_(window.rows.in * window.columns.in * block() * size_of(node.in(0).dtype)),
        y_block_(window.rows.out * window.columns.out * block() * size_of(node.in(0).dtype)),
        scratch_(whole_lines(pool_.scratch())) {
    const int64_t channels = node.in(0).dims[1], blocks = (channels + block() - 1) / block();
    parts_ = runs(blocks, 1, (threads() + images_ - 1) / images_);
    slots_ = static_cast<int>(std::min<int64_t>(threads(), images_ * count_of(parts_)));
    workspace_bytes = static_cast<size_t>(slots_) * scratch_;
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    const int64_t parts = count_of(parts_);
    parallel_tasks(images_ * parts, slots_, [&](int64_t task, int slot) {
      const int64_t image = task / parts;
      const Run& part = parts_[static_cast<size_t>(task % parts)];
      pool_.run(static_cast<const char*>(in[0]) + image * x_step_ + part.first * x_block_,
                static_cast<char*>(out[0]) + image * y_step_ + part.first * y_block_, part.n,
                static_cast<char*>(workspace) + static_cast<size_t>(slot) * scratch_);
    });
  }

 private:
  static int64_t count_of(const std::vector<Run>& parts) {
    return static_cast<int64_t>(parts.size());
  }

  BlockPool pool_;
  int64_t images_, x_step_, y_step_, x_block_, y_block_;  // bytes
  size_t scratch_;
  std::vector<Run> parts_;  // of the blocks
  int slots_ = 1;
};

std::unique_ptr<Kernel> pool_kernel(const Node& node) {
  const AskedPool a = ask_pool(node);
  if (a.layout == Layout::kBlocked) return std::make_unique<PooledBlocks>(node, a.window);
  const ndt_tensor_type x = node.in(0), y = node.out();
  Sliced::Plan plan{.images = x.dims[0]};
  plan.make = [=](int64_t images) {
    return pooling(a.window, desc_of(x, a.layout, images), desc_of(y, a.layout, images));
  };
  plan.ports.push_back(input_port(0, x, a.layout));
  set_output(plan, y, a.layout);
  return std::make_unique<Sliced>(std::move(plan));
}

}  // namespace

std::unique_ptr<Kernel> prepare_pool(const ndt_device&, const Node& node) {
  return pool_kernel(node);
}

void prefer_pool(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  check(node);
  const Layout layout = layout_of(in[0], "input 0");
  if (layout == Layout::kPlain) unsupported("its input is plain");
  const bool one_pixel =
      layout == Layout::kLast ? out[0].dims[2] * out[0].dims[3] == 1 : same_bytes(node.out());
  set_layout(out[0], one_pixel ? Layout::kPlain : layout);
  const ndt_node wanted = node.with(in, out);
  pool_kernel(Node(wanted));
}

}  // namespace ndtrain::onednn
