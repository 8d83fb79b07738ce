#include "backends/onednn/activation.h"

#include <map>

#include "backends/plugin/clamp.h"

namespace ndtrain::onednn {

using Kind = dnnl::algorithm;

Activation gelu_of(const Node& node) {
  return {node.s("approximate") == "tanh" ? Kind::eltwise_gelu_tanh : Kind::eltwise_gelu_erf};
}

bool is_clamp(const std::optional<Activation>& a) {
  return !a || a->kind == Kind::eltwise_relu || a->kind == Kind::eltwise_clip;
}

namespace {

Activation function_of(std::string_view steps) {
  static const std::map<std::string_view, Activation> known = {
      {"Gelu x0 approximate=none", {Kind::eltwise_gelu_erf}},
      {"Gelu x0 approximate=tanh", {Kind::eltwise_gelu_tanh}},
      {"HardSwish x0", {Kind::eltwise_hardswish}},
      {"Relu x0", {Kind::eltwise_relu}},
      {"Sigmoid x0", {Kind::eltwise_logistic}},
      {"Sigmoid x0; Mul x0 y0", {Kind::eltwise_swish, 1}},
      {"Sigmoid x0; Mul y0 x0", {Kind::eltwise_swish, 1}},
      {"Tanh x0", {Kind::eltwise_tanh}},
  };
  const auto found = known.find(steps);
  if (found != known.end()) return found->second;
  const std::optional<plugin::Clamp> clamp = plugin::clamp_of(steps);
  if (!clamp) unsupported("there is no function '", steps, "'");
  return {Kind::eltwise_clip, static_cast<float>(clamp->low), static_cast<float>(clamp->high)};
}

}  // namespace

std::optional<Activation> activation_of(const Node& node) {
  if (!node.has_attr("steps") || node.s("steps").empty()) return {};
  return function_of(node.s("steps"));
}

}  // namespace ndtrain::onednn
