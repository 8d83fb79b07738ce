// MaxPool and AveragePool where channels lie together, and GlobalAveragePool.
#include "backends/onednn/ops.h"
#include "backends/onednn/sliced.h"

namespace ndtrain::onednn {
namespace {

void check(const Node& node) {
  if (node.in(0).rank != 4) unsupported("its input has rank ", node.in(0).rank, ", not 4");
  if (count(node.in(0)) == 0 || count(node.out()) == 0) unsupported("it is empty");
  if (node.has_output(1)) unsupported("it is asked for indices");
  check_float(node, node.op() == "MaxPool");
  for (const int64_t d : node.ints("dilations")) {
    if (d != 1) unsupported("dilation ", d, " is not 1");
  }
}

// A window that reaches further than the padding: the library wants it as more padding.
Pooling pooling_of(const Node& node) {
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  Pooling p{.kind = dnnl::algorithm::pooling_max};
  const bool average = node.op() == "AveragePool";
  const bool with_pad = average && node.i("count_include_pad") != 0;
  if (average) {
    p.kind = with_pad ? dnnl::algorithm::pooling_avg_include_padding
                      : dnnl::algorithm::pooling_avg_exclude_padding;
  }
  const auto kernel = node.ints("kernel_shape"), strides = node.ints("strides"),
             pads = node.ints("pads");
  if (kernel.size() != 2 || strides.size() != 2 || pads.size() != 4) {
    invalid("kernel_shape, strides or pads are not for two spatial dims");
  }
  for (int d = 0; d < 2; ++d) {
    const int64_t reach = (y.dims[2 + d] - 1) * strides[d] + kernel[d] - x.dims[2 + d] - pads[d];
    if (with_pad && reach > pads[2 + d]) unsupported("ceil_mode counts cells beyond the padding");
    p.kernel.push_back(kernel[d]);
    p.strides.push_back(strides[d]);
    p.begin.push_back(pads[d]);
    p.end.push_back(std::max<int64_t>(reach, 0));
  }
  return p;
}

Pooling global_pooling_of(const Node& node) {
  const ndt_tensor_type& x = node.in(0);
  const Dims all = {x.dims[2], x.dims[3]}, none = {0, 0};
  return {.kind = dnnl::algorithm::pooling_avg_exclude_padding,
          .kernel = all,
          .strides = all,
          .begin = none,
          .end = none};
}

// One pixel of whole blocks of channels lies the same, plain or blocked.
bool same_bytes(const ndt_tensor_type& y) {
  return lies(y, Layout::kPlain) && y.dims[2] * y.dims[3] == 1 && y.dims[1] % block() == 0;
}

Sliced::Plan pool_plan(const Node& node) {
  check(node);
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  const Layout layout = layout_of(x, "input 0");
  if (layout == Layout::kPlain) unsupported("its input is plain");
  if (!lies(y, layout) && !(layout == Layout::kBlocked && same_bytes(y))) {
    unsupported("its output does not lie as its input");
  }
  const Pooling p = node.op() == "GlobalAveragePool" ? global_pooling_of(node) : pooling_of(node);
  const auto make = [=](int64_t images, int64_t channels) {
    ndt_tensor_type from = x, to = y;
    from.dims[1] = to.dims[1] = channels;
    Pooling of = p;
    of.src = desc_of(from, layout, images);
    of.dst = desc_of(to, layout, images);
    return pooling(of);
  };
  Sliced::Plan plan{.images = x.dims[0]};
  plan.make = [=](int64_t images) { return make(images, x.dims[1]); };
  if (layout == Layout::kBlocked) {
    plan.cut = [=](int64_t n) {
      std::vector<Sliced::Plan::Part> parts;
      for (const Run& run : runs(x.dims[1], block(), n)) {
        const auto bytes = [&](const ndt_tensor_type& t) {
          return run.first * t.dims[2] * t.dims[3] * size_of(t.dtype);
        };
        parts.push_back({make(1, run.n), {bytes(x), bytes(y)}});
      }
      return parts;
    };
  }
  plan.ports.push_back(input_port(0, x, layout));
  set_output(plan, y, layout);
  return plan;
}

}  // namespace

std::unique_ptr<Kernel> prepare_pool(const ndt_device&, const Node& node) {
  return std::make_unique<Sliced>(pool_plan(node));
}

void prefer_pool(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  check(node);
  const Layout layout = layout_of(in[0], "input 0");
  if (layout == Layout::kPlain) unsupported("its input is plain");
  const bool one_pixel =
      layout == Layout::kLast ? out[0].dims[2] * out[0].dims[3] == 1 : same_bytes(node.out());
  set_layout(out[0], one_pixel ? Layout::kPlain : layout);
  const ndt_node wanted = node.with(in, out);
  pool_plan(Node(wanted)).make(1);
}

}  // namespace ndtrain::onednn
