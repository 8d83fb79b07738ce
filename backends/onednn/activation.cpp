#include "backends/onednn/activation.h"

#include <map>

namespace ndtrain::onednn {

using Kind = dnnl::algorithm;

Activation gelu_of(const Node& node) {
  return {node.s("approximate") == "tanh" ? Kind::eltwise_gelu_tanh : Kind::eltwise_gelu_erf};
}

namespace {

Activation function_of(std::string_view steps) {
  static const std::map<std::string_view, Activation> known = {
      {"Gelu x0 approximate=none", {Kind::eltwise_gelu_erf}},
      {"Gelu x0 approximate=tanh", {Kind::eltwise_gelu_tanh}},
      {"HardSwish x0", {Kind::eltwise_hardswish}},
      {"Sigmoid x0", {Kind::eltwise_logistic}},
      {"Sigmoid x0; Mul x0 y0", {Kind::eltwise_swish, 1}},
      {"Sigmoid x0; Mul y0 x0", {Kind::eltwise_swish, 1}},
      {"Tanh x0", {Kind::eltwise_tanh}},
  };
  const auto found = known.find(steps);
  if (found == known.end()) unsupported("there is no function '", steps, "'");
  return found->second;
}

}  // namespace

std::optional<Activation> activation_of(const Node& node) {
  const bool plain = !node.has_attr("activation") || node.s("activation").empty();
  if (node.has_attr("steps")) {
    if (!plain) unsupported("it has an activation and a function");
    return function_of(node.s("steps"));
  }
  if (plain) return {};
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
