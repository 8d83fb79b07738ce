// ConvGradInput, f32 and bf16, blocked: dx of a few images at a time from dy and the weights.
#include "backends/onednn/conv_choice.h"
#include "backends/onednn/conv_plan.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/winograd.h"

namespace ndtrain::onednn {
namespace {

constexpr int64_t kImages = 4;  // in a slice

struct Back {
  AskedConv conv;

  PrimitivePtr make(int64_t images, const Desc& weights) const {
    return convolution_back_data(conv.filled(images, weights));
  }
  Desc weights() const {
    const Desc any = any_desc(conv.shape.as_asked(), conv.weights_dtype);
    return make(1, any)->desc(DNNL_ARG_WEIGHTS);
  }
};

Back asked(const Node& node) {
  check_trained_float(node);
  Back b{ask(node, node.out(), node.in(1), node.in(0))};
  if (b.conv.from != Layout::kBlocked || b.conv.to != Layout::kBlocked) {
    unsupported("it is not blocked");
  }
  b.conv.weights_change = true;  // the library has no form of its own for them backwards
  check_changing(b.conv);
  return b;
}

// As a convolution of dy: of filters rotated by 180 degrees, its channels those of the results.
AskedConv forwards(const AskedConv& a) {
  AskedConv f = a;
  std::swap(f.x, f.y);
  std::swap(f.from, f.to);
  std::swap(f.shape.in, f.shape.out);
  f.shape.wide_in = f.shape.in;
  for (size_t i = 0; i < f.shape.begin.size(); ++i) {
    const int64_t reach = i == 0 ? f.shape.height : f.shape.width;
    f.shape.begin[i] = reach - 1 - a.shape.begin[i];
  }
  return f;
}

std::unique_ptr<Kernel> winograd(const Node& node, const AskedConv& f) {
  const Desc plain = swapped_desc(f.shape.weights(), f.weights_dtype);
  return std::make_unique<Winograd>(
      f,
      WinogradWeights{
          .plain = plain, .rotated = true, .data = node.constant(1), .id = node.constant_id(1)},
      f.x.dims[0], threads());
}

}  // namespace

std::unique_ptr<Kernel> prepare_conv_grad_input(const ndt_device& device, const Node& node) {
  const Back b = asked(node);
  const AskedConv f = forwards(b.conv);
  if (!device.less_memory && winograd_by_rule(f)) return winograd(node, f);
  const Desc weights = b.weights();
  Sliced::Plan plan{.images = b.conv.y.dims[0], .sizes = {}};
  for (int64_t images = 1; images <= kImages; ++images) {
    try {
      b.make(images, weights);
      plan.sizes.push_back(images);
    } catch (const Unsupported&) {  // then without this size
    }
  }
  if (plan.sizes.empty()) unsupported("oneDNN does not take the weights that it laid out");
  plan.make = [=](int64_t images) { return b.make(images, weights); };
  plan.ports.push_back(input_port(0, b.conv.y, Layout::kBlocked));
  set_output(plan, b.conv.x, Layout::kBlocked);
  return kernel_with_weights(node, b.conv, weights, std::move(plan));
}

void prefer_conv_grad_input(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  if (in[0].rank != 4) unsupported("its input has rank ", in[0].rank, ", not 4");
  set_layout(in[0], Layout::kBlocked);
  set_layout(in[1], Layout::kPlain);
  set_layout(out[0], Layout::kBlocked);
  const ndt_node wanted = node.with(in, out);
  asked(Node(wanted)).weights();
}

}  // namespace ndtrain::onednn
