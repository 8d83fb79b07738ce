// FusedConv with a pool: an image's channels by parts that stay in cache until they are pooled.
// Direct convolutions only: what the fixed rule computes by Winograd stays apart.
#include "backends/onednn/conv_choice.h"
#include "backends/onednn/conv_cut.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/pool_blocks.h"

namespace ndtrain::onednn {
namespace {

constexpr int64_t kPartBytes = int64_t{1} << 20;  // half of the cache that a core has alone

int64_t plane_bytes(const ndt_tensor_type& t) { return t.dims[2] * t.dims[3] * size_of(t.dtype); }

struct Asked {
  AskedConv conv;  // its output is what is pooled
  PoolWindow pool;
  ndt_tensor_type y;
};

// The node says no more than how large it is when it is pooled.
void set_conv_output(AskedConv& c) {
  const ConvShape& s = c.shape;
  const Dims kernel = {s.height, s.width};
  for (size_t d = 0; d < kernel.size(); ++d) {
    const int64_t reach = (kernel[d] - 1) * (s.dilations[d] + 1) + 1;
    c.y.dims[2 + d] = (c.x.dims[2 + d] + s.begin[d] + s.end[d] - reach) / s.strides[d] + 1;
  }
  set_layout(c.y, Layout::kBlocked);
}

Asked ask_pooled(const Node& node) {
  check_float(node);
  Asked a{.conv = ask(node, {.residual = -1}), .pool = {}, .y = node.out()};
  AskedConv& c = a.conv;
  if (c.to != Layout::kBlocked) unsupported("its output is not blocked");
  if (c.from != Layout::kBlocked && !(c.from == Layout::kPlain && c.shape.few_channels())) {
    unsupported("its input is not blocked");
  }
  if (node.has(3)) unsupported("it has a residual");
  const auto kernel = node.ints("pool_kernel_shape"), strides = node.ints("pool_strides"),
             pads = node.ints("pool_pads");
  if (c.x.rank != 4 || kernel.size() != 2 || strides.size() != 2 || pads.size() != 4) {
    unsupported("it is not for two spatial dims");
  }
  set_conv_output(c);
  a.pool = {.kind = PoolWindow::Kind::kMax,
            .rows = {c.y.dims[2], a.y.dims[2], kernel[0], strides[0], pads[0]},
            .columns = {c.y.dims[3], a.y.dims[3], kernel[1], strides[1], pads[1]}};
  if (c.shape.groups != 1) unsupported("its convolution has groups");
  if (winograd_by_rule(c)) unsupported("its convolution is one for Winograd");
  return a;
}

class PooledConv final : public Kernel {
 public:
  PooledConv(const Node& node, const Asked& a)
      : images_(a.conv.x.dims[0]), bias_(a.conv.how.bias), pool_(a.pool, a.y.dtype) {
    const Desc wanted = a.conv.make(1)->desc(DNNL_ARG_WEIGHTS);
    weights_ = weights_of(node, a.conv, wanted);
    packed_inputs = uint64_t{1} << a.conv.ports.weights;
    x_step_ = input_port(0, a.conv.x, a.conv.from).step;
    y_step_ = output_port(0, a.y, Layout::kBlocked).step;
    cut(a, wanted);
    slots_ = static_cast<int>(
        std::min<int64_t>(threads(), images_ * static_cast<int64_t>(parts_.size())));
    workspace_bytes = static_cast<size_t>(slots_) * (scratch_ + unpooled_);
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    const auto parts = static_cast<int64_t>(parts_.size());
    std::atomic<bool> failed{false};
    parallel_tasks(images_ * parts, slots_, [&](int64_t task, int slot) {
      char* scratch =
          static_cast<char*>(workspace) + static_cast<size_t>(slot) * (scratch_ + unpooled_);
      try {
        run_part(parts_[static_cast<size_t>(task % parts)], task / parts, in, out, scratch);
      } catch (const std::exception&) {  // the library answers with no more than a status
        failed = true;
      }
    });
    if (failed) invalid("oneDNN could not run ", parts_.front().conv.primitive->algorithm());
  }

 private:
  struct Part {
    Sliced::Plan::Part conv;
    int64_t blocks;
    int64_t at;  // bytes into an image of the output
  };

  // As few parts as stay in cache, and enough of them for every thread.
  void cut(const Asked& a, const Desc& wanted) {
    const int64_t channels = a.conv.y.dims[1], bytes = channels * plane_bytes(a.conv.y);
    const int64_t n =
        std::max((bytes + kPartBytes - 1) / kPartBytes, (threads() + images_ - 1) / images_);
    const std::vector<Sliced::Plan::Part> convs = cut_image(a.conv, wanted, 1, n);
    if (convs.empty()) unsupported("its convolution cannot be cut");
    for (size_t i = 0; i < convs.size(); ++i) {
      const int64_t first = convs[i].offsets.back() / plane_bytes(a.conv.y);
      const int64_t end =
          i + 1 < convs.size() ? convs[i + 1].offsets.back() / plane_bytes(a.conv.y) : channels;
      const int64_t blocks = (end - first + block() - 1) / block();
      parts_.push_back({convs[i], blocks, first * plane_bytes(a.y)});
      scratch_ = std::max(
          {scratch_, whole_lines(convs[i].primitive->scratch()), whole_lines(pool_.scratch())});
      unpooled_ = std::max(
          unpooled_, whole_lines(static_cast<size_t>(blocks * block() * plane_bytes(a.conv.y))));
    }
  }

  void run_part(const Part& part, int64_t image, const void* const* in, void* const* out,
                char* scratch) const {
    const auto at = [](const void* p, int64_t offset) {
      return const_cast<char*>(static_cast<const char*>(p) + offset);
    };
    const std::vector<int64_t>& offsets = part.conv.offsets;
    char* const unpooled = scratch + scratch_;
    size_t n = 0;
    void* data[4] = {};
    data[n++] = at(in[0], image * x_step_ + offsets[0]);
    data[n++] = at(weights_->data(), offsets[1]);
    if (bias_) data[n++] = at(in[2], offsets[2]);
    data[n++] = unpooled;
    part.conv.primitive->run(data, scratch);
    pool_.run(unpooled, at(out[0], image * y_step_ + part.at), part.blocks, scratch);
  }

  int64_t images_;
  bool bias_;
  BlockPool pool_;
  std::shared_ptr<const Packed> weights_;
  int64_t x_step_ = 0, y_step_ = 0;
  std::vector<Part> parts_;
  int slots_ = 1;
  size_t scratch_ = 0, unpooled_ = 0;  // bytes of one slot
};

}  // namespace

std::unique_ptr<Kernel> prepare_conv_pool(const ndt_device&, const Node& node) {
  return std::make_unique<PooledConv>(node, ask_pooled(node));
}

void prefer_conv_pool(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  const bool few = conv_shape(node, node.in(0), node.in(1)).few_channels();
  set_layout(in[0], few ? Layout::kPlain : Layout::kBlocked);
  set_layout(out[0], Layout::kBlocked);
  const ndt_node wanted = node.with(in, out);
  const Node laid(wanted);
  PooledConv(laid, ask_pooled(laid));
}

}  // namespace ndtrain::onednn
