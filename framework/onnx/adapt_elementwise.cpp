// Functions of one number that are others put together, and Hardmax, as these.
#include <limits>

#include "framework/graph/op.h"
#include "framework/onnx/adapt.h"

namespace ndtrain {
namespace {

std::string swish_of(Adaptation& a, const std::string& x) {
  const double alpha = a.take<double>("alpha").value_or(1);
  const std::string inner = alpha == 1 ? x : a.before("Mul", {x, a.number(alpha, x)});
  return a.before("Sigmoid", {inner});
}

}  // namespace

// x sigmoid(alpha x).
void adapt_swish(Adaptation& a) {
  const std::string x = a.input(0), gate = swish_of(a, x);
  a.become("Mul", {x, gate});
}

// The Swish of a, times b.
void adapt_swi_glu(Adaptation& a) {
  const std::string x = a.input(0), other = a.input(1), gate = swish_of(a, x);
  a.become("Mul", {a.before("Mul", {x, gate}), other});
}

// x + bias below -lambd, x - bias above lambd, else 0. A table that has an op of that name keeps
// it.
void adapt_shrink(Adaptation& a) {
  if (try_find_op("Shrink")) return;
  const std::string x = a.input(0);
  const std::string bias = a.number(a.take<double>("bias").value_or(0), x);
  const double limit = a.take<double>("lambd").value_or(0.5);
  const std::string above = a.before("Greater", {x, a.number(limit, x)});
  const std::string below = a.before("Less", {x, a.number(-limit, x)});
  const std::string inner = a.before("Where", {above, a.before("Sub", {x, bias}), a.number(0, x)});
  a.become("Where", {below, a.before("Add", {x, bias}), inner});
}

// 1 where the first largest number along the axis is, else 0. The axis may be the batch, so that
// its places are counted once shapes are known.
void adapt_hardmax(Adaptation& a) {
  const std::string x = a.input(0);
  const TensorType type = a.type(x);
  const int axis = type.shape.axis(a.take<int64_t>("axis").value_or(-1), "axis");
  const Attrs first{{"axis", int64_t{0}}};
  const std::string top =
      a.before("ArgMax", {x}, {{"axis", int64_t{axis}}, {"keepdims", int64_t{1}}});
  const auto scalar = [&](int64_t v) {
    return a.constant(Tensor::of<int64_t>(DType::kI64, Shape{}, {v}));
  };
  const std::string extent = a.before("Gather", {a.before("Shape", {x}), scalar(axis)}, first);
  Ints dims(static_cast<size_t>(type.shape.rank()), 1);
  dims[static_cast<size_t>(axis)] = -1;
  const std::string places =
      a.before("Reshape", {a.before("Range", {scalar(0), extent, scalar(1)}), a.constant(dims)});
  a.become("Cast", {a.before("Equal", {top, places})}, {{"to", static_cast<int64_t>(type.dtype)}});
}

void adapt_is_inf(Adaptation& a) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string x = a.input(0);
  const bool below = a.take<int64_t>("detect_negative").value_or(1) != 0;
  const bool above = a.take<int64_t>("detect_positive").value_or(1) != 0;
  if (below && above) {
    a.become("Equal", {a.before("Abs", {x}), a.number(kInfinity, x)});
  } else if (below || above) {
    a.become("Equal", {x, a.number(below ? -kInfinity : kInfinity, x)});
  } else {
    a.become("Less", {x, x});  // nowhere
  }
}

}  // namespace ndtrain
