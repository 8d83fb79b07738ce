#include "framework/onnx/own_functions.h"

#include <algorithm>

namespace ndtrain {
namespace {

// Writes a function of x in the few ops it takes.
class Body {
 public:
  Body(const char* name, int opset) : opset_(opset) {
    f_.domain = kOwnDomain;
    f_.name = name;
    f_.inputs = {"x"};
    f_.outputs = {"y"};
    f_.opsets = {{"", opset}};
  }

  std::string apply(const char* op, std::vector<std::string> inputs, Attrs attrs = {}) {
    std::string name = "v" + std::to_string(f_.nodes.size());
    add(op, std::move(inputs), name, std::move(attrs));
    return name;
  }
  std::string number(float v) {
    Attrs value = {{"value", Tensor::of<float>(DType::kF32, Shape{}, {v})}};
    return apply("CastLike", {apply("Constant", {}, std::move(value)), "x"});
  }
  OnnxFunction result(const char* op, std::vector<std::string> inputs) {
    add(op, std::move(inputs), "y", {});
    return std::move(f_);
  }

 private:
  void add(const char* op, std::vector<std::string> inputs, std::string output, Attrs attrs) {
    OnnxNode n;
    n.op = op;
    n.inputs = std::move(inputs);
    n.outputs = {std::move(output)};
    n.attrs = std::move(attrs);
    n.opset = opset_;
    f_.nodes.push_back(std::move(n));
  }

  int opset_;
  OnnxFunction f_;
};

// y = x/2 (1 + erf(x / sqrt 2))
OnnxFunction gelu(int opset) {
  Body b("Gelu", opset);
  const std::string erf = b.apply("Erf", {b.apply("Mul", {"x", b.number(0.70710678f)})});
  const std::string half = b.apply("Mul", {"x", b.number(0.5f)});
  return b.result("Mul", {half, b.apply("Add", {erf, b.number(1)})});
}

// y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
OnnxFunction gelu_tanh(int opset) {
  Body b("GeluTanh", opset);
  const std::string square = b.apply("Mul", {"x", "x"});
  const std::string cube = b.apply("Mul", {square, "x"});
  const std::string inner = b.apply("Add", {"x", b.apply("Mul", {cube, b.number(0.044715f)})});
  const std::string tanh = b.apply("Tanh", {b.apply("Mul", {inner, b.number(0.79788456f)})});
  const std::string half = b.apply("Mul", {"x", b.number(0.5f)});
  return b.result("Mul", {half, b.apply("Add", {tanh, b.number(1)})});
}

// y = x tanh(softplus(x))
OnnxFunction mish(int opset) {
  Body b("Mish", opset);
  return b.result("Mul", {"x", b.apply("Tanh", {b.apply("Softplus", {"x"})})});
}

std::span<const OwnFunction> table() {
  static const std::vector<OwnFunction> functions = {
      {"Gelu", "Gelu", 19, {{"approximate", std::string("none")}}, gelu},
      {"GeluTanh", "Gelu", 19, {{"approximate", std::string("tanh")}}, gelu_tanh},
      {"Mish", "Mish", 17, {}, mish},
  };
  return functions;
}

}  // namespace

const OwnFunction* own_function_named(std::string_view name) {
  const auto it = std::ranges::find(table(), name, &OwnFunction::name);
  return it == table().end() ? nullptr : &*it;
}

const OwnFunction* own_function_for(const ModelNode& node, int opset) {
  for (const OwnFunction& f : table()) {
    if (f.op != node.op || opset > f.until) continue;
    // A Model written by hand may leave the default out.
    const bool tanh = node.attrs.has("approximate") && node.attrs.s("approximate") == "tanh";
    if ((f.name == "GeluTanh") == tanh) return &f;
  }
  return nullptr;
}

}  // namespace ndtrain
