// Operators on bytes as QDQ: y = quantize(f(dequantize(x))).
#include "framework/onnx/adapt_microsoft.h"
#include "framework/onnx/tensor_proto.h"

namespace ndtrain {
namespace {

// Input i, whose scale and zero point are the two behind it.
std::string dequantized(Adaptation& a, size_t i) {
  std::vector<std::string> in = {a.input(i), a.input(i + 1)};
  if (a.has_input(i + 2)) in.push_back(a.input(i + 2));
  return a.before("DequantizeLinear", std::move(in));
}

// Of integers x, whose scales are of its last axis if they are several.
std::string dequantized_columns(Adaptation& a, std::vector<std::string> x, int64_t axis = -1) {
  return a.before("DequantizeLinear", std::move(x), {{"axis", axis}});
}

// The node is `value` in the scale that is input i, in the type of `like` where no zero point has
// one.
void quantize(Adaptation& a, const std::string& value, size_t i, const std::string& like) {
  std::vector<std::string> in = {value, a.input(i)};
  Attrs attrs;
  if (a.has_input(i + 1)) {
    in.push_back(a.input(i + 1));
  } else {
    attrs.set("output_dtype", dtype_to_onnx(a.type(like).dtype));
  }
  a.become("QuantizeLinear", std::move(in), std::move(attrs));
  become_onnx(a, "QuantizeLinear");
}

std::vector<std::string> with_given(Adaptation& a, std::vector<std::string> in, size_t i) {
  if (a.has_input(i)) in.push_back(a.input(i));
  return in;
}

// x w + bias.
void become_product(Adaptation& a, const std::string& x, const std::string& w, size_t bias) {
  if (a.has_input(bias)) a.after(0, "Add", {a.input(bias)});
  a.become("MatMul", {x, w});
  become_onnx(a, "MatMul");
}

}  // namespace

void adapt_qlinear_binary(Adaptation& a) {
  const char* op = a.node.op == "QLinearAdd" ? "Add" : "Mul";
  const std::string like = a.input(0), x = dequantized(a, 0), y = dequantized(a, 3);
  quantize(a, a.before(op, {x, y}), 6, like);
}

void adapt_qlinear_unary(Adaptation& a) {
  const std::string op = a.node.op.substr(std::string("QLinear").size()), like = a.input(0);
  quantize(a, a.before(op, {dequantized(a, 0)}, a.node.attrs), 3, like);
}

// Up to opset 12 everything from the axis on was one distribution.
void adapt_qlinear_softmax(Adaptation& a) {
  const std::string like = a.input(0);
  const int rank = a.type(like).shape.rank();
  const int axis = a.type(like).shape.axis(a.take<int64_t>("axis").value_or(-1), "axis");
  const int64_t opset = a.take<int64_t>("opset").value_or(13);
  if (opset < 13 && axis != rank - 1)
    throw Error("axis ", axis, " of opset ", opset, " is not supported, only the last");
  quantize(a, a.before("Softmax", {dequantized(a, 0)}, {{"axis", int64_t{axis}}}), 3, like);
}

void adapt_qlinear_pool(Adaptation& a) {
  const std::string op = a.node.op.substr(std::string("QLinear").size()), like = a.input(0);
  const bool last = a.take<int64_t>("channels_last").value_or(0) != 0;
  std::string x = dequantized(a, 0);
  if (last) {
    channels_last_again(a, a.type(like).shape.rank());
    x = channels_second(a, x);
  }
  quantize(a, a.before(op, {x}, a.node.attrs), 3, like);
}

void adapt_qlinear_concat(Adaptation& a) {
  std::vector<std::string> parts;
  for (size_t i = 2; i + 1 < a.node.inputs.size(); i += 3) parts.push_back(dequantized(a, i));
  const Attrs axis{{"axis", a.take<int64_t>("axis").value_or(0)}};
  quantize(a, a.before("Concat", std::move(parts), axis), 0, a.input(2));
}

void adapt_qlinear_where(Adaptation& a) {
  const std::string like = a.input(1), x = dequantized(a, 1), y = dequantized(a, 4);
  quantize(a, a.before("Where", {a.input(0), x, y}), 7, like);
}

void adapt_qlinear_mean(Adaptation& a) {
  const std::string like = a.input(0);
  std::vector<std::string> in = {dequantized(a, 0)};
  if (const auto axes = a.take<Ints>("axes"); axes && !axes->empty()) {
    in.push_back(a.constant(*axes));
  }
  const Attrs keep{{"keepdims", a.take<int64_t>("keepdims").value_or(1)}};
  quantize(a, a.before("ReduceMean", std::move(in), keep), 3, like);
}

void adapt_qlinear_conv(Adaptation& a) {
  if (a.take<int64_t>("channels_last").value_or(0) != 0) {
    channels_last_again(a, a.type(a.input(0)).shape.rank());
    a.set_input(0, channels_second(a, a.input(0)));
  }
  become_onnx(a, "QLinearConv");
}

// Its third operand is in the product of the others' scales, times alpha.
void adapt_q_gemm(Adaptation& a) {
  const std::string like = a.input(0), x = dequantized(a, 0);
  const Attrs attrs = a.node.attrs;
  const bool upright = attrs.has("transB") && attrs.i("transB") != 0;
  const std::string w =
      dequantized_columns(a, with_given(a, {a.input(3), a.input(4)}, 5), upright ? 0 : 1);
  std::vector<std::string> in = {x, w};
  if (a.has_input(6)) {
    std::string scale = a.before("Mul", {a.input(1), a.input(4)});
    const double alpha = attrs.has("alpha") ? attrs.f("alpha") : 1;
    if (alpha != 1) scale = a.before("Mul", {scale, a.number(alpha, scale)});
    const std::string bias =
        a.before("Cast", {a.input(6)}, {{"to", static_cast<int64_t>(DType::kF32)}});
    in.push_back(a.before("Mul", {bias, scale}));
  }
  if (a.has_input(7)) {
    quantize(a, a.before("Gemm", std::move(in), attrs), 7, like);
  } else {
    a.become("Gemm", std::move(in), attrs);
    become_onnx(a, "Gemm");
  }
}

void adapt_integer_matmul(Adaptation& a) {
  const std::string x = a.before("DequantizeLinear", with_given(a, {a.input(0), a.input(2)}, 4));
  const std::string w = dequantized_columns(a, with_given(a, {a.input(1), a.input(3)}, 5));
  become_product(a, x, w, 6);
}

void adapt_dynamic_matmul(Adaptation& a) {
  const std::string x =
      a.before("DequantizeLinear", a.several_before("DynamicQuantizeLinear", {a.input(0)}, 3));
  const std::string w = dequantized_columns(a, with_given(a, {a.input(1), a.input(2)}, 3));
  become_product(a, x, w, 4);
}

void adapt_nhwc_max_pool(Adaptation& a) {
  channels_last_again(a, a.type(a.input(0)).shape.rank());
  a.set_input(0, channels_second(a, a.input(0)));
  become_onnx(a, "MaxPool");
}

}  // namespace ndtrain
