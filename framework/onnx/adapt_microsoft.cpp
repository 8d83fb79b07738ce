// Operators of ONNX Runtime's own domain that equal ours, or two of ours in a row. Source:
// docs/ContribOperators.md of ONNX Runtime.
#include "framework/graph/elementwise_steps.h"
#include "framework/graph/op.h"
#include "framework/onnx/adapt.h"

namespace ndtrain {
namespace {

// Both leave the domain, in the newest form.
void become(Adaptation& a, const char* op) {
  a.node.domain.clear();
  a.node.op = op;
  a.node.opset = kMaxOpset;
}

void fused_conv(Adaptation& a) {
  const std::string activation = a.take<std::string>("activation").value_or("");
  const Floats params = a.take<Floats>("activation_params").value_or(Floats{});
  become(a, "FusedConv");
  const OpDef* def = try_find_op(activation);
  if (activation.empty()) return;
  if (def && def->facts.clamp && params.size() + 1 == static_cast<size_t>(def->max_inputs)) {
    ElementwiseStep clamp{activation, {{ElementwiseOperand::Kind::kInput}}, {}};
    for (const double limit : params) {
      clamp.operands.push_back({ElementwiseOperand::Kind::kNumber, 0, limit});
    }
    a.node.attrs.set("steps", text_of({clamp}));
  } else if ((activation == "Sigmoid" || activation == "Tanh") && params.empty()) {
    a.after(0, activation);
  } else if (activation == "LeakyRelu" && params.size() == 1) {
    a.after(0, activation, {}, {{"alpha", params[0]}});
  } else if (activation == "HardSigmoid" && params.size() == 2) {
    a.after(0, activation, {}, {{"alpha", params[0]}, {"beta", params[1]}});
  } else {
    a.refuse("activation " + activation + " with " + std::to_string(params.size()) +
             " parameters is not supported");
  }
}

void add_bias(Adaptation& a) {
  if (a.has_input(1)) a.set_input(0, a.before("Add", {a.input(0), a.input(1)}));
  a.node.inputs.resize(1);
}

void gelu(Adaptation& a) { become(a, "Gelu"); }

void bias_gelu(Adaptation& a) {
  add_bias(a);
  become(a, "Gelu");
}

void fast_gelu(Adaptation& a) {
  bias_gelu(a);
  a.node.attrs.set("approximate", std::string("tanh"));
}

void fused_matmul(Adaptation& a) {
  for (const char* flag : {"transA", "transB", "transBatchA", "transBatchB"}) {
    if (a.take<int64_t>(flag).value_or(0) != 0) {
      a.refuse(std::string("attribute ") + flag + " is not supported");
    }
  }
  const double alpha = a.take<double>("alpha").value_or(1);
  become(a, "MatMul");
  if (alpha == 1) return;
  const Tensor factor = Tensor::from_doubles({DType::kF32, Shape{}}, std::span(&alpha, 1));
  const std::string like = a.before("CastLike", {a.constant(factor), a.input(0)});
  a.after(0, "Mul", {like});
}

}  // namespace

std::span<const AdaptRule> microsoft_rules() {
  static const std::vector<AdaptRule> rules = {
      {{"FusedConv"}, 1, 1, fused_conv},     {{"Gelu"}, 1, 1, gelu},
      {{"BiasGelu"}, 1, 1, bias_gelu},       {{"FastGelu"}, 1, 1, fast_gelu},
      {{"FusedMatMul"}, 1, 1, fused_matmul},
  };
  return rules;
}

}  // namespace ndtrain
