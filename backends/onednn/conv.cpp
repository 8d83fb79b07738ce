// Conv and FusedConv, f32 and bf16: blocked in and out; few input channels are read plain. Weights
// that change from run to run are those of training.
#include "backends/onednn/activation.h"
#include "backends/onednn/conv_choice.h"
#include "backends/onednn/conv_plan.h"
#include "backends/onednn/ops.h"

namespace ndtrain::onednn {
namespace {

AskedConv asked(const Node& node) {
  check_float(node);
  const AskedConv a = ask(node, {});
  if (a.to != Layout::kBlocked) unsupported("its output is not blocked");
  if (a.from != Layout::kBlocked && !(a.from == Layout::kPlain && a.shape.few_channels())) {
    unsupported("its input is not blocked");
  }
  if (a.weights_change) check_changing(a);
  return a;
}

bool is_pooled(const Node& node) { return node.has_attr("pool_kernel_shape"); }

}  // namespace

std::unique_ptr<Kernel> prepare_conv(const ndt_device& device, const Node& node) {
  if (is_pooled(node)) return prepare_conv_pool(device, node);
  return conv_kernel(device, node, asked(node));
}

void prefer_conv(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  if (is_pooled(node)) return prefer_conv_pool(node, in, out);
  const ConvPorts ports;
  check_float(node);
  const bool few = conv_shape(node, in[0], node.in(ports.weights)).few_channels();
  if (node.constant(ports.residual)) unsupported("its residual is constant");
  set_layout(in[0], few ? Layout::kPlain : Layout::kBlocked);
  set_layout(in[ports.weights], Layout::kPlain);
  set_layout(out[0], Layout::kBlocked);
  if (node.has(ports.residual)) set_layout(in[ports.residual], Layout::kBlocked);
  const ndt_node wanted = node.with(in, out);
  const AskedConv a = asked(Node(wanted));
  // Winograd takes clamps alone, and saves more than a pass over the result.
  AskedConv alone = a;
  alone.how.finish.activation.reset();
  if (!is_clamp(a.how.finish.activation) && winograd_by_rule(alone))
    unsupported("Winograd computes it faster");
  a.make(1);
}

}  // namespace ndtrain::onednn
