#include "framework/graph/op.h"

#include <limits>

namespace ndtrain {

Ints InferContext::ints(size_t i) const {
  if (i >= known.size() || !known[i].defined()) {
    throw Error("input ", i, " must be known in advance: make it a constant or bind it at import");
  }
  return known[i].to_ints();
}

Ints ReferenceContext::ints(size_t i) const {
  constexpr double kEnd = 9223372036854775808.0;  // 2^63, which INT64_MAX became as a double
  Ints result;
  for (const double v : in[i]) {
    result.push_back(v >= kEnd ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(v));
  }
  return result;
}

ValueId GradientContext::dy_or_zeros(size_t i) {
  return dy[i] != kNone ? dy[i] : g.add_constant("", Tensor(g.type(y(i))));
}

ValueId GradientContext::scalar(double v, DType t) {
  const std::vector<double> one = {v};
  return g.add_constant("", Tensor::from_doubles({t, {}}, one));
}

ExampleInput ExampleInput::ints(std::vector<int64_t> v) {
  ExampleInput e(DType::kI64, {static_cast<int64_t>(v.size())});
  e.values.assign(v.begin(), v.end());
  e.known = true;
  return e;
}

ExampleInput ExampleInput::scalar(double v, DType t) {
  ExampleInput e = given(t, {}, {v});
  e.known = true;
  return e;
}

ExampleInput ExampleInput::given(DType t, Shape s, std::vector<double> v) {
  ExampleInput e(t, std::move(s));
  e.values = std::move(v);
  return e;
}

ExampleInput ExampleInput::range(Shape s, double low, double high, DType t) {
  ExampleInput e(t, std::move(s));
  e.low = low;
  e.high = high;
  return e;
}

ExampleInput ExampleInput::no_ties(Shape s) {
  ExampleInput e(std::move(s));
  e.distinct = true;
  return e;
}

std::vector<ValueId> composed(Graph& g, const Node& node) try {
  const size_t before = g.value_count();
  ComposeContext context{g, node};
  std::vector<ValueId> made = find_op(node.op).compose(context);
  if (made.size() != node.outputs.size()) {
    throw Error("is composed of others with ", made.size(), " outputs, not ", node.outputs.size());
  }
  for (size_t k = 0; k < made.size(); ++k) {
    if (g.type(made[k]) != g.type(node.outputs[k])) {
      throw Error("composed of others it gives ", g.type(made[k]), ", not ",
                  g.type(node.outputs[k]));
    }
    if (index(made[k]) < before) made[k] = g.add1("Identity", {made[k]});
  }
  return made;
} catch (const Error& e) {
  if (std::string_view(e.what()).starts_with(node.op + ": ")) throw;
  throw Error(node.op, ": ", e.what());
}

std::vector<std::vector<double>> run_reference(const OpDef& def, const Attrs& attrs,
                                               std::span<const TensorType> in_types,
                                               std::span<const TensorType> out_types,
                                               std::span<const std::vector<double>> in) {
  if (!def.reference) throw Error(def.name, " has no reference");
  std::vector<std::vector<double>> out;
  for (const TensorType& t : out_types) out.emplace_back(static_cast<size_t>(t.shape.count()), 0.0);
  try {
    def.reference(ReferenceContext{attrs, in_types, out_types, in, out});
  } catch (const Error& e) {
    throw Error(def.name, ": ", e.what());
  }
  for (size_t k = 0; k < out.size(); ++k) {
    if (static_cast<int64_t>(out[k].size()) != out_types[k].shape.count()) {
      throw Error(def.name, ": the reference filled ", out[k].size(), " elements of output ", k,
                  ", whose type is ", out_types[k]);
    }
    for (double& v : out[k]) v = rounded(v, out_types[k].dtype);
  }
  return out;
}

}  // namespace ndtrain
