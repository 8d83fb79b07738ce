// Normalisations that are others put together, as these.
#include "framework/onnx/adapt.h"

namespace ndtrain {
namespace {

constexpr Attr kKeep{int64_t{1}};

std::string reduced(Adaptation& a, const char* op, const std::string& x, const Ints& axes) {
  return a.before(op, {x, a.constant(axes)}, {{"keepdims", kKeep}});
}

Ints axes_from(int first, int rank) {
  Ints axes;
  for (int d = first; d < rank; ++d) axes.push_back(d);
  return axes;
}

std::string cast(Adaptation& a, const std::string& x, DType from, DType to) {
  if (from == to) return x;
  return a.before("Cast", {x}, {{"to", static_cast<int64_t>(to)}});
}

// One number for each channel, for x of this rank.
std::string per_channel(Adaptation& a, const std::string& v, int rank) {
  Ints dims(static_cast<size_t>(rank) - 1, 1);
  dims[0] = -1;
  return a.before("Reshape", {v, a.constant(dims)});
}

void refuse_stash(Adaptation& a) {
  const int64_t stash = a.take<int64_t>("stash_type").value_or(1);
  if (stash != 1) throw Error("stash_type is ", stash, ", only 1 (f32) is supported");
}

}  // namespace

// The channels of a group are one plane of an InstanceNormalization. Up to opset 20 scale and bias
// were of groups, as that has them; since then they are of channels.
void adapt_group_norm(Adaptation& a) {
  const TensorType x = a.type(a.input(0));
  const int64_t groups = a.take<int64_t>("num_groups").value_or(0);
  const double epsilon = a.take<double>("epsilon").value_or(double{1e-5f});
  refuse_stash(a);
  if (x.shape.rank() < 3 || groups < 1 || groups > x.shape[1] || x.shape[1] % groups != 0) {
    throw Error("num_groups ", groups, " does not divide the channels of ", x);
  }
  const bool of_groups = a.node.opset < 21;
  const DType wide = size_of(x.dtype) < 4 ? DType::kF32 : x.dtype;
  const auto affine = [&](size_t i, double none) {
    if (of_groups) return cast(a, a.input(i), x.dtype, wide);
    const std::vector<double> all(static_cast<size_t>(groups), none);
    return a.constant(Tensor::from_doubles({wide, {groups}}, all));
  };
  const std::string flat =
      a.before("Reshape", {cast(a, a.input(0), x.dtype, wide), a.constant({0, groups, -1})});
  const std::string normal =
      a.before("InstanceNormalization", {flat, affine(1, 1), affine(2, 0)}, {{"epsilon", epsilon}});
  const std::string z = cast(a, normal, wide, x.dtype);
  const std::string shape = a.before("Shape", {a.input(0)});
  if (of_groups) return a.become("Reshape", {z, shape}, {{"allowzero", int64_t{1}}});
  const std::string y = a.before("Reshape", {z, shape}, {{"allowzero", int64_t{1}}});
  const int rank = x.shape.rank();
  const std::string scaled = a.before("Mul", {y, per_channel(a, a.input(1), rank)});
  a.become("Add", {scaled, per_channel(a, a.input(2), rank)});
}

// x / sqrt(mean of x^2 + epsilon) * scale, over the dims from `axis` on; 16-bit floats by way of
// f32.
void adapt_rms_norm(Adaptation& a) {
  const TensorType x = a.type(a.input(0)), scale = a.type(a.input(1));
  const double epsilon = a.take<double>("epsilon").value_or(double{1e-5f});
  const int axis = x.shape.axis(a.take<int64_t>("axis").value_or(-1), "axis");
  refuse_stash(a);
  const DType wide = size_of(x.dtype) < 4 ? DType::kF32 : x.dtype;
  const std::string v = cast(a, a.input(0), x.dtype, wide);
  const std::string mean =
      reduced(a, "ReduceMean", a.before("Mul", {v, v}), axes_from(axis, x.shape.rank()));
  const std::string small = a.constant(Tensor::from_doubles({wide, {}}, std::span(&epsilon, 1)));
  const std::string root = a.before("Sqrt", {a.before("Add", {mean, small})});
  const std::string y = cast(a, a.before("Div", {v, root}), wide, scale.dtype);
  a.become("Mul", {y, a.input(1)});
}

// x / |x|_p along an axis; what has no length stays 0.
void adapt_lp_norm(Adaptation& a) {
  const std::string x = a.input(0);
  const int64_t axis = a.take<int64_t>("axis").value_or(-1), p = a.take<int64_t>("p").value_or(2);
  if (p != 1 && p != 2) throw Error("p is ", p, ", must be 1 or 2");
  const std::string length = reduced(a, p == 1 ? "ReduceL1" : "ReduceL2", x, {axis});
  const std::string none = a.before("Equal", {length, a.number(0, x)});
  a.become("Div", {x, a.before("Where", {none, a.number(1, x), length})});
}

// (x - mean) / (deviation + 1e-9), as ONNX's own function has it.
void adapt_mean_variance_norm(Adaptation& a) {
  const std::string x = a.input(0);
  const Ints axes = a.take<Ints>("axes").value_or(Ints{0, 2, 3});
  const std::string centred = a.before("Sub", {x, reduced(a, "ReduceMean", x, axes)});
  const std::string variance = reduced(a, "ReduceMean", a.before("Mul", {centred, centred}), axes);
  const std::string deviation = a.before("Add", {a.before("Sqrt", {variance}), a.number(1e-9, x)});
  a.become("Div", {centred, deviation});
}

// (sum of |x|^p)^(1/p) over all places of a plane.
void adapt_global_lp_pool(Adaptation& a) {
  const std::string x = a.input(0);
  const Ints axes = axes_from(2, a.type(x).shape.rank());
  const int64_t p = a.take<int64_t>("p").value_or(2);
  if (p < 1) throw Error("p is ", p, ", must be 1 or more");
  if (p <= 2) {
    return a.become(p == 1 ? "ReduceL1" : "ReduceL2", {x, a.constant(axes)}, {{"keepdims", kKeep}});
  }
  const auto power = static_cast<double>(p);
  const std::string powers = a.before("Pow", {a.before("Abs", {x}), a.number(power, x)});
  a.become("Pow", {reduced(a, "ReduceSum", powers, axes), a.number(1 / power, x)});
}

}  // namespace ndtrain
