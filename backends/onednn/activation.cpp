#include "backends/onednn/activation.h"

namespace ndtrain::onednn {

using Kind = dnnl::algorithm;

Activation gelu_of(const Node& node) {
  return {node.s("approximate") == "tanh" ? Kind::eltwise_gelu_tanh : Kind::eltwise_gelu_erf};
}

std::optional<Activation> activation_of(const Node& node) {
  if (!node.has_attr("activation") || node.s("activation").empty()) return {};
  const std::string_view name = node.s("activation");
  if (name == "Relu") return Activation{Kind::eltwise_relu};
  if (name == "Gelu") return gelu_of(node);
  if (name == "Clip") {
    return Activation{Kind::eltwise_clip, static_cast<float>(node.f("clip_min")),
                      static_cast<float>(node.f("clip_max"))};
  }
  unsupported("activation ", name, " is not Relu, Gelu or Clip");
}

}  // namespace ndtrain::onednn
