// What ONNX Runtime's optimizer fuses, as it was before: our passes fuse for themselves.
#include "framework/graph/op.h"
#include "framework/onnx/adapt_microsoft.h"

namespace ndtrain {
namespace {

// The transposed product operand, where the attribute says so.
std::string operand(Adaptation& a, size_t i, const char* transposed, const char* batches) {
  if (a.take<int64_t>(batches).value_or(0) != 0) throw Error(batches, " is not supported");
  const std::string x = a.input(i);
  const int rank = a.take<int64_t>(transposed).value_or(0) == 0 ? 0 : a.type(x).shape.rank();
  if (rank < 2) return x;  // of one dimension is the same
  Ints perm;
  for (int d = 0; d < rank; ++d) perm.push_back(d);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return a.before("Transpose", {x}, {{"perm", perm}});
}

// input + skip + bias, which is the last output as well.
std::string skipped(Adaptation& a, size_t bias) {
  std::string sum = a.before("Add", {a.input(0), a.input(1)});
  if (a.has_input(bias)) sum = a.before("Add", {sum, a.input(bias)});
  a.give(3, sum);
  if (a.node.outputs.size() > 3) a.node.outputs.resize(3);
  while (a.node.outputs.size() > 1 && a.node.outputs.back().empty()) a.node.outputs.pop_back();
  return sum;
}

}  // namespace

void add_activation(Adaptation& a, const std::string& activation, const Floats& params) {
  if (activation.empty()) return;
  const size_t n = params.size();
  if (activation == "Clip" && n == 2) {
    const std::string like = a.input(0);
    a.after(0, "Clip", {a.number(params[0], like), a.number(params[1], like)});
  } else if ((activation == "Relu" || activation == "Sigmoid" || activation == "Tanh" ||
              activation == "Softplus" || activation == "Softsign") &&
             n == 0) {
    a.after(0, activation);
  } else if ((activation == "LeakyRelu" || activation == "Elu") && n == 1) {
    a.after(0, activation, {}, {{"alpha", params[0]}});
  } else if (activation == "HardSigmoid" && n == 2) {
    a.after(0, activation, {}, {{"alpha", params[0]}, {"beta", params[1]}});
  } else {
    throw Error("activation ", activation, " with ", n, " parameters is not supported");
  }
}

void adapt_fused_conv(Adaptation& a) {
  add_activation(a, a.take<std::string>("activation").value_or(""),
                 a.take<Floats>("activation_params").value_or(Floats{}));
  if (a.has_input(3)) a.after(0, "Add", {a.input(3)});
  a.node.inputs.resize(std::min<size_t>(a.node.inputs.size(), 3));
  become_onnx(a, "Conv");
}

void adapt_nhwc_conv(Adaptation& a) {
  channels_last_again(a, a.type(a.input(0)).shape.rank());
  for (const size_t i : {0, 3}) {
    if (a.has_input(i)) a.set_input(i, channels_second(a, a.input(i)));
  }
  adapt_fused_conv(a);
}

void adapt_fused_gemm(Adaptation& a) {
  const std::string activation = a.take<std::string>("activation").value_or("");
  Floats params;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (const auto value = a.take<double>(name)) params.push_back(*value);
  }
  // It states the parameters of functions that have none too.
  if (activation == "Relu" || activation == "Sigmoid" || activation == "Tanh") params.clear();
  if (activation == "LeakyRelu") params.resize(1, 0.01);
  add_activation(a, activation, params);
  become_onnx(a, "Gemm");
}

void adapt_fused_matmul(Adaptation& a) {
  const std::string left = operand(a, 0, "transA", "transBatchA");
  const std::string right = operand(a, 1, "transB", "transBatchB");
  const double alpha = a.take<double>("alpha").value_or(1);
  if (alpha != 1) a.after(0, "Mul", {a.number(alpha, a.input(0))});
  a.node.inputs = {left, right};
  become_onnx(a, "MatMul");
}

void adapt_bias_gelu(Adaptation& a) {
  if (a.has_input(1)) a.set_input(0, a.before("Add", {a.input(0), a.input(1)}));
  a.node.inputs.resize(1);
  become_onnx(a, "Gelu");
}

void adapt_fast_gelu(Adaptation& a) {
  adapt_bias_gelu(a);
  a.node.attrs.set("approximate", std::string("tanh"));
}

// x sigmoid(alpha x), which is ONNX's Swish.
void adapt_quick_gelu(Adaptation& a) {
  if (!a.node.attrs.has("alpha")) a.node.attrs.set("alpha", double{1.702F});
  become_onnx(a, "Swish");
}

void adapt_skip_layer_norm(Adaptation& a) {
  if (!a.node.attrs.has("epsilon")) a.node.attrs.set("epsilon", double{1e-12F});
  a.node.attrs.set("axis", int64_t{-1});
  std::vector<std::string> in = {skipped(a, 4), a.input(2)};
  if (a.has_input(3)) in.push_back(a.input(3));
  a.node.inputs = std::move(in);
  become_onnx(a, "LayerNormalization");
}

void adapt_skip_rms_norm(Adaptation& a) {
  if (!a.node.attrs.has("epsilon")) a.node.attrs.set("epsilon", double{1e-12F});
  const std::string scale = a.input(2);
  a.node.inputs = {skipped(a, 3), scale};
  if (a.node.outputs.size() > 1) throw Error("its statistics as outputs are not supported");
  become_onnx(a, "RMSNormalization");
}

}  // namespace ndtrain
