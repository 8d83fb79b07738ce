#include "models/builder.h"

#include <algorithm>
#include <cmath>

#include "framework/graph/constants.h"
#include "framework/graph/op.h"

namespace ndtrain::models {
namespace {

Ints twice(Size s) { return {s.height, s.width}; }
Ints pads(Size s) { return {s.height, s.width, s.height, s.width}; }
// ONNX stores single precision: what is not rounded here would not survive a file.
double single(double v) { return static_cast<float>(v); }

// A Model has all attributes, as if it had been imported.
void complete(const std::string& op, Attrs& attrs) {
  for (const AttrSpec& spec : find_op(op).attrs) {
    if (attrs.has(spec.name) || !spec.fallback) continue;
    Attr value = *spec.fallback;
    if (double* f = std::get_if<double>(&value)) *f = single(*f);
    attrs.set(std::string(spec.name), std::move(value));
  }
}

}  // namespace

Builder::Builder(uint64_t seed, int64_t img_size, Inits inits)
    : seed_(seed), inits_(std::move(inits)), input_("input") {
  model_.inputs.push_back({input_, DType::kF32, {kBatch, 3, img_size, img_size}});
  values_[input_] = shapes_.add_input(input_, {DType::kF32, {1, 3, img_size, img_size}});
}

const Shape& Builder::shape(const Value& x) const {
  const auto it = values_.find(x);
  if (it == values_.end()) throw Error("the model being built has no value '", x, "'");
  return shapes_.shape(it->second);
}

Builder::Value Builder::param(const std::string& name, Shape shape, const Init& init) {
  return constant_tensor(name, init(shape, Rng(seed_, name)));
}

Builder::Value Builder::constant_tensor(const std::string& name, Tensor value) {
  if (values_.contains(name)) throw Error("the model being built has '", name, "' already");
  values_[name] = is_float(value.type().dtype) ? shapes_.add_param(name, value)
                                               : shapes_.add_constant(name, value);
  model_.initialisers.emplace(name, std::move(value));
  return name;
}

Builder::Value Builder::ints(Ints values) {
  std::string name = "ints";
  for (int64_t v : values) name += "/" + std::to_string(v);
  return values_.contains(name) ? name : constant_tensor(name, Tensor::i64(values));
}

Builder::Value Builder::integer(int64_t value) {
  const std::string name = "integer/" + std::to_string(value);
  if (values_.contains(name)) return name;
  return constant_tensor(name, Tensor::of<int64_t>(DType::kI64, Shape{}, {value}));
}

Builder::Value Builder::number(double value) {
  const float v = static_cast<float>(value);
  return node("Constant", {}, {{"value", Tensor::of<float>(DType::kF32, Shape{}, {v})}});
}

std::vector<Builder::Value> Builder::nodes(const std::string& op, const std::vector<Value>& inputs,
                                           Attrs attrs, size_t outputs) {
  std::vector<ValueId> in;
  for (const Value& x : inputs) {
    if (!values_.contains(x)) throw Error(op, ": the model being built has no value '", x, "'");
    in.push_back(values_.at(x));
  }
  complete(op, attrs);
  const std::vector<ValueId> out = add_shapes(op, in, attrs, static_cast<int>(outputs));
  std::vector<Value> names;
  for (size_t k = 0; k < outputs; ++k) {
    names.push_back(op + "_" + std::to_string(counts_[op]++));
    values_[names.back()] = out.at(k);
  }
  model_.nodes.push_back({op, inputs, names, std::move(attrs)});
  return names;
}

// As bind() does: shape arithmetic becomes a constant.
std::vector<ValueId> Builder::add_shapes(const std::string& op, const std::vector<ValueId>& in,
                                         const Attrs& attrs, int outputs) {
  const size_t nodes = shapes_.nodes().size();
  std::vector<ValueId> out = shapes_.add(op, in, attrs, outputs);
  const bool known =
      shapes_.nodes().size() > nodes && !in.empty() && std::ranges::all_of(in, [&](ValueId v) {
        return shapes_.value(v).kind == ValueKind::kConstant;
      });
  if (!known) return out;
  const std::vector<Tensor> results = run_on_constants(shapes_, shapes_.nodes().back());
  for (size_t k = 0; k < out.size(); ++k) out[k] = shapes_.add_constant("", results[k]);
  return out;
}

Builder::Value Builder::named(const Value& x, const std::string& name) {
  if (model_.nodes.empty() || model_.nodes.back().outputs[0] != x || values_.contains(name)) {
    throw Error("cannot call value '", x, "' of the model being built '", name, "'");
  }
  model_.nodes.back().outputs[0] = name;
  auto value = values_.extract(x);
  value.key() = name;
  values_.insert(std::move(value));
  return name;
}

Model Builder::finish(const Value& x) {
  model_.outputs = {named(x, "logits")};
  return std::move(model_);
}

Builder::Value Builder::bias(const std::string& name, int64_t n, int64_t fan_in) {
  const Init by_fan = uniform(1 / std::sqrt(static_cast<double>(fan_in)));
  return param(name + ".bias", {n}, inits_.bias.value_or(by_fan));
}

Builder::Value Builder::conv(const std::string& name, const Value& x, const Conv& c) {
  const Shape weight = {c.out, shape(x)[1] / c.groups, c.kernel.height, c.kernel.width};
  std::vector<Value> in = {x, param(name + ".weight", weight, c.init.value_or(inits_.conv))};
  if (c.bias) in.push_back(bias(name, c.out, fan_in(weight)));
  return named(node("Conv", in,
                    {{"kernel_shape", twice(c.kernel)},
                     {"strides", twice(c.stride)},
                     {"pads", pads(c.pad)},
                     {"dilations", Ints{1, 1}},
                     {"group", c.groups}}),
               name);
}

Builder::Value Builder::batch_norm(const std::string& name, const Value& x, double epsilon) {
  const Shape channels = {shape(x)[1]};
  const Value scale = param(name + ".weight", channels, constant(1));
  const Value shift = param(name + ".bias", channels, constant(0));
  const Value mean = param(name + ".running_mean", channels, constant(0));
  const Value var = param(name + ".running_var", channels, constant(1));
  return named(
      node("BatchNormalization", {x, scale, shift, mean, var}, {{"epsilon", single(epsilon)}}),
      name);
}

Builder::Value Builder::layer_norm(const std::string& name, const Value& x, double epsilon) {
  const Shape features = {shape(x)[-1]};
  const Value scale = param(name + ".weight", features, constant(1));
  const Value shift = param(name + ".bias", features, constant(0));
  return named(node("LayerNormalization", {x, scale, shift},
                    {{"axis", int64_t{-1}}, {"epsilon", single(epsilon)}}),
               name);
}

Builder::Value Builder::linear(const std::string& name, const Value& x, int64_t out) {
  const Shape weight = {out, shape(x)[-1]};
  const Value w = param(name + ".weight", weight, inits_.linear);
  return named(linear(x, w, bias(name, out, fan_in(weight))), name);
}

// Of rank 3 as MatMul, since Gemm would need the batch and the tokens to be one dimension: a cut
// there could not be told apart into photos.
Builder::Value Builder::linear(const Value& x, const Value& weight, const Value& bias) {
  if (shape(x).rank() == 2) return node("Gemm", {x, weight, bias}, {{"transB", int64_t{1}}});
  return add(node("MatMul", {x, transpose(weight, {1, 0})}), bias);
}

Builder::Value Builder::relu6(const Value& x) {
  const Value low = number(0), high = number(6);
  return node("Clip", {x, low, high});
}

Builder::Value Builder::dropout(const Value& x, double ratio) {
  return ratio == 0 ? x : node("Dropout", {x, number(ratio)});
}

Builder::Value Builder::max_pool(const Value& x, const Pool& p) {
  return node("MaxPool", {x},
              {{"kernel_shape", twice(p.kernel)},
               {"strides", twice(p.stride)},
               {"pads", pads(p.pad)},
               {"dilations", Ints{1, 1}},
               {"ceil_mode", int64_t{p.ceil_mode}}});
}

Builder::Value Builder::average_pool(const Value& x, const Pool& p) {
  return node("AveragePool", {x},
              {{"kernel_shape", twice(p.kernel)},
               {"strides", twice(p.stride)},
               {"pads", pads(p.pad)},
               {"ceil_mode", int64_t{p.ceil_mode}},
               {"count_include_pad", int64_t{1}}});
}

Builder::Value Builder::concat(const std::vector<Value>& parts, int64_t axis) {
  return node("Concat", parts, {{"axis", axis}});
}

}  // namespace ndtrain::models
