#include "framework/train/head.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/core/rng.h"
#include "framework/graph/op.h"

namespace ndtrain {
namespace {

bool is_weight(const Model& m, const std::string& name) {
  const auto it = m.initialisers.find(name);
  return it != m.initialisers.end() && is_float(it->second.type().dtype);
}

bool has_weights(const Model& m, const ModelNode& n) {
  return find_op(n.op).facts.kind == OpKind::kProduct && n.inputs.size() > 1 &&
         is_weight(m, n.inputs[1]) && m.initialisers.at(n.inputs[1]).shape().rank() >= 2;
}

// The dim of a classifier's weight that counts classes, and the fan-in.
int class_dim(const ModelNode& n, const Shape& w) {
  if (n.op == "Conv") return 0;
  if (n.op == "MatMul") return w.rank() - 1;
  return n.attrs.has("transB") && n.attrs.flag("transB") ? 0 : 1;
}

Tensor uniform(const Shape& shape, double bound, uint64_t seed, const std::string& name) {
  Tensor t({DType::kF32, shape});
  const Rng rng(seed, "init " + name);
  auto values = t.mutable_as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((2 * rng.uniform(i) - 1) * bound);
  }
  return t;
}

// The weight that an Add gives to `value`; "" if there is none.
std::string added_weight(const Model& m, const std::string& value) {
  for (const ModelNode& n : m.nodes) {
    if (n.op != "Add") continue;
    for (size_t k = 0; k < 2; ++k) {
      if (n.inputs.at(k) == value && is_weight(m, n.inputs.at(1 - k))) return n.inputs[1 - k];
    }
  }
  return "";
}

// PyTorch's kaiming_uniform with a = sqrt(5), which comes to 1/sqrt(fan-in).
void initialise(Model& m, const ClassifierNode& c, int64_t classes, uint64_t seed) {
  const Shape& old = m.initialisers.at(c.weight).shape();
  const int dim = class_dim(m.nodes[c.node], old);
  const Shape shape = old.with(dim, classes);
  const double fan_in = static_cast<double>(old.count()) / static_cast<double>(old[dim]);
  const double bound = 1 / std::sqrt(std::max(1.0, fan_in));
  m.initialisers[c.weight] = uniform(shape, bound, seed, c.weight);
  if (!c.bias.empty()) {
    const Shape& bias = m.initialisers.at(c.bias).shape();
    m.initialisers[c.bias] = uniform(bias.with(bias.rank() - 1, classes), bound, seed, c.bias);
  }
}

// Constants behind the classifier that spell out the number of classes: Reshape's [N, 1000].
void renumber_shapes(Model& m, size_t from, int64_t was, int64_t classes) {
  for (size_t i = from; i < m.nodes.size(); ++i) {
    if (m.nodes[i].op != "Reshape") continue;
    const auto it = m.initialisers.find(m.nodes[i].inputs.at(1));
    if (it == m.initialisers.end()) continue;
    Ints dims = it->second.to_ints();
    std::ranges::replace(dims, was, classes);
    it->second = Tensor::i64(dims);
  }
}

}  // namespace

ClassifierNode find_classifier(const Model& m) {
  for (size_t i = m.nodes.size(); i-- > 0;) {
    const ModelNode& n = m.nodes[i];
    if (!has_weights(m, n)) continue;
    ClassifierNode c{i, n.inputs[0], n.inputs[1], "", 0};
    const Shape& w = m.initialisers.at(c.weight).shape();
    c.classes = w[class_dim(n, w)];
    if (n.inputs.size() > 2 && is_weight(m, n.inputs[2])) c.bias = n.inputs[2];
    if (n.op == "MatMul") c.bias = added_weight(m, n.outputs[0]);
    return c;
  }
  throw Error(
      "the model has no Conv, Gemm or MatMul with weights: there is no classifier to replace");
}

Model with_new_classifier(const Model& m, int64_t classes, uint64_t seed) {
  if (classes < 2) throw Error("a classifier needs at least 2 classes, not ", classes);
  const ClassifierNode c = find_classifier(m);
  Model changed = m;
  initialise(changed, c, classes, seed);
  renumber_shapes(changed, c.node, c.classes, classes);
  const Graph g = bind(changed, 1);
  const Shape& out = g.shape(g.outputs()[0]);
  if (out.rank() < 2 || out[1] != classes) {
    throw Error("the last op with weights ('", c.weight,
                "') does not decide the classes: the output is ", out, " for ", classes,
                " classes; use --head linear");
  }
  return changed;
}

// What `from` has, where it counts fewer along `dim` than `to`.
void copy_part(const Tensor& from, int dim, Tensor& to) {
  const Shape &small = from.shape(), &large = to.shape();
  int64_t inner = 1;
  for (int d = dim + 1; d < small.rank(); ++d) inner *= small[d];
  const auto there = static_cast<size_t>(small[dim] * inner);
  const auto stride = static_cast<size_t>(large[dim] * inner);
  const auto values = from.as<float>();
  auto out = to.mutable_as<float>();
  for (size_t block = 0; block * there < values.size(); ++block) {
    std::copy_n(&values[block * there], there, &out[block * stride]);
  }
}

Model with_more_classes(const Model& m, int64_t classes, uint64_t seed) {
  const ClassifierNode c = find_classifier(m);
  if (classes < c.classes) {
    throw Error("the classifier has ", c.classes, " classes; it cannot grow to ", classes);
  }
  if (classes == c.classes) return m;
  Model grown = with_new_classifier(m, classes, seed);
  const int dim = class_dim(m.nodes[c.node], m.initialisers.at(c.weight).shape());
  copy_part(m.initialisers.at(c.weight), dim, grown.initialisers.at(c.weight));
  if (!c.bias.empty()) {
    const Tensor& bias = m.initialisers.at(c.bias);
    copy_part(bias, bias.shape().rank() - 1, grown.initialisers.at(c.bias));
  }
  return grown;
}

Model with_linear_head(const Model& m, int64_t classes, uint64_t seed) {
  if (classes < 2) throw Error("a classifier needs at least 2 classes, not ", classes);
  const ClassifierNode c = find_classifier(m);
  std::vector<std::string> inputs;
  for (const ModelInput& in : m.inputs) inputs.push_back(in.name);
  Model out = extract(m, inputs, std::vector{c.features});
  const Graph g = bind(out, 1);
  const Shape features = g.shape(g.outputs()[0]);
  std::string last = c.features;
  // Tokens [n, t, width] are averaged over t; planes [n, width, …] over what follows.
  const bool tokens = features.rank() == 3;
  if (tokens) {
    out.initialisers["head.axes"] = Tensor::i64({1});
    out.nodes.push_back(
        {"ReduceMean", {last, "head.axes"}, {"head.features"}, {{"keepdims", int64_t{0}}}});
  } else if (features.rank() > 3) {
    out.nodes.push_back({"GlobalAveragePool", {last}, {"head.pooled"}, {}});
    out.nodes.push_back({"Flatten", {"head.pooled"}, {"head.features"}, {{"axis", int64_t{1}}}});
  }
  if (features.rank() > 2) last = "head.features";
  const int64_t width = features[tokens ? 2 : 1];
  const double bound = 1 / std::sqrt(static_cast<double>(width));
  out.initialisers["head.weight"] = uniform({classes, width}, bound, seed, "head.weight");
  out.initialisers["head.bias"] = uniform({classes}, bound, seed, "head.bias");
  out.nodes.push_back(
      {"Gemm", {last, "head.weight", "head.bias"}, {"logits"}, {{"transB", int64_t{1}}}});
  out.outputs = {"logits"};
  return out;
}

Model with_rounded_features(const Model& m, const std::vector<std::string>& features) {
  Model out = m;
  out.nodes.clear();
  auto cast = [](DType t) { return Attrs{{"to", static_cast<int64_t>(t)}}; };
  const std::set<std::string> rounded(features.begin(), features.end());
  // Only what lies behind the cut reads the rounded value: in front, a feature may be read as well.
  const Model behind = extract(m, features, m.outputs);
  std::set<std::string> behind_outputs;
  for (const ModelNode& n : behind.nodes) behind_outputs.insert(n.outputs.begin(), n.outputs.end());
  for (const ModelNode& n : m.nodes) {
    ModelNode copy = n;
    if (behind_outputs.contains(n.outputs[0])) {
      for (std::string& in : copy.inputs) {
        if (rounded.contains(in)) in += "@f32";
      }
    }
    out.nodes.push_back(std::move(copy));
    for (const std::string& name : n.outputs) {
      if (!rounded.contains(name)) continue;
      out.nodes.push_back({"Cast", {name}, {name + "@f16"}, cast(DType::kF16)});
      out.nodes.push_back({"Cast", {name + "@f16"}, {name + "@f32"}, cast(DType::kF32)});
    }
  }
  return out;
}

Model without_rounded_features(const Model& m) {
  Model out = m;
  out.nodes.clear();
  for (ModelNode n : m.nodes) {
    const bool added =
        n.op == "Cast" && (n.outputs[0].ends_with("@f16") || n.outputs[0].ends_with("@f32"));
    if (added) continue;
    for (std::string& in : n.inputs) {
      if (in.ends_with("@f32")) in.resize(in.size() - 4);
    }
    out.nodes.push_back(std::move(n));
  }
  return out;
}

}  // namespace ndtrain
