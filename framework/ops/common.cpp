#include "framework/ops/common.h"

namespace ndtrain {

OpFacts mapping(OpFacts more) {
  more.kind = OpKind::kMap;
  more.per_image = each_image;
  return more;
}

OpFacts moving(OpFacts more) {
  more.kind = OpKind::kMove;
  more.rounding = Rounding::kExact;
  more.sign = Sign::kAsInputs;
  return more;
}

bool each_image_off_axis_0(const Attrs& attrs, int rank) {
  const int64_t axis = attrs.i("axis");
  return axis != 0 && axis != -rank;
}

bool is_signed(DType t) {
  return is_float(t) || t == DType::kI8 || t == DType::kI16 || t == DType::kI32 || t == DType::kI64;
}

bool is_wide(DType t) { return is_float(t) || (is_integer(t) && size_of(t) >= 4); }

void require(const InferContext& c, size_t i, bool (*allowed)(DType), std::string_view what) {
  if (c.has(i) && !allowed(c.in[i].dtype)) {
    throw Error("input ", i, " is ", c.in[i], ", must be of ", what);
  }
}

void require_same_dtype(const InferContext& c, size_t i, size_t j) {
  if (c.has(i) && c.has(j) && c.in[i].dtype != c.in[j].dtype) {
    throw Error("inputs ", i, " and ", j, " differ in dtype: ", c.in[i], " and ", c.in[j]);
  }
}

void same_type(InferContext& c) {
  for (size_t i = 1; i < c.in.size(); ++i) {
    if (c.has(i) && !(c.in[i] == c.in[0])) {
      throw Error("inputs 0 and ", i, " differ: ", c.in[0], " and ", c.in[i]);
    }
  }
  c.out = {c.in[0]};
}

void same_float_type(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  same_type(c);
}

ValueId reshape(Graph& g, ValueId v, const Shape& shape) {
  if (g.shape(v) == shape) return v;
  return g.add1("Reshape", {v, g.add_constant("", shape.dims())}, {{"allowzero", int64_t{1}}});
}

ValueId unbroadcast(Graph& g, ValueId dy, const Shape& shape) {
  const Shape from = g.shape(dy);
  if (from == shape) return dy;
  const int extra = from.rank() - shape.rank();
  std::vector<int64_t> axes;
  for (int d = 0; d < from.rank(); ++d) {
    if (d < extra || (shape[d - extra] == 1 && from[d] != 1)) axes.push_back(d);
  }
  if (!axes.empty()) {
    dy = g.add1("ReduceSum", {dy, g.add_constant("", axes)}, {{"keepdims", int64_t{1}}});
  }
  return reshape(g, dy, shape);
}

ValueId expand(Graph& g, ValueId v, const Shape& shape) {
  if (g.shape(v) == shape) return v;
  return g.add1("Expand", {v, g.add_constant("", shape.dims())});
}

ValueId cast(Graph& g, ValueId v, DType t) {
  if (g.type(v).dtype == t) return v;
  return g.add1("Cast", {v}, {{"to", static_cast<int64_t>(t)}});
}

ValueId scalar_like(Graph& g, double x, ValueId like) {
  const std::vector<double> one = {x};
  return g.add_constant("", Tensor::from_doubles({g.type(like).dtype, {}}, one));
}

std::vector<Example> unary_examples(const std::vector<DType>& dtypes, double low, double high) {
  std::vector<Example> examples;
  auto add = [&](DType t, Shape s) {
    Example e;
    e.inputs.push_back(ExampleInput::range(std::move(s), low, high, t));
    examples.push_back(std::move(e));
  };
  add(dtypes.at(0), {7});
  add(dtypes.at(0), {2, 3, 5, 4});
  add(dtypes.at(0), {});
  add(dtypes.at(0), {0, 3});
  for (size_t i = 1; i < dtypes.size(); ++i) add(dtypes[i], {3, 11});
  return examples;
}

std::vector<Example> in_moved_dtypes(std::vector<Example> list, Example (*make)(DType)) {
  for (const DType t : kMovedDTypes) list.push_back(make(t));
  return list;
}

}  // namespace ndtrain
