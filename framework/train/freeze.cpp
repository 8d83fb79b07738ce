#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "framework/graph/op.h"
#include "framework/graph/split.h"
#include "framework/train/head.h"

namespace ndtrain {
namespace {

// Which nodes of the graph are frozen, as a limit: the params they read are not trained.
std::set<ValueId> ancestors(const Graph& g, ValueId value) {
  std::set<ValueId> set = {value};
  for (size_t i = g.nodes().size(); i-- > 0;) {
    const Node& n = g.nodes()[i];
    const bool needed = std::ranges::any_of(n.outputs, [&](ValueId v) { return set.contains(v); });
    if (needed) set.insert(n.inputs.begin(), n.inputs.end());
  }
  return set;
}

bool has_weights(const Graph& g, const Node& n) {
  return find_op(n.op).facts.kind == OpKind::kProduct && n.inputs.size() > 1 &&
         g.value(n.inputs[1]).kind == ValueKind::kParam;
}

std::set<ValueId> first_layers(const Graph& g, int64_t layers) {
  int64_t met = 0;
  std::set<ValueId> frozen;
  for (const Node& n : g.nodes()) {
    if (has_weights(g, n) && met++ == layers) return frozen;
    frozen.insert(n.inputs.begin(), n.inputs.end());
  }
  throw Error("--freeze ", layers, ": the model has only ", met,
              " layers with weights; nothing is left to train");
}

// The value called `name`, else the last one computed from parameters called name.*.
ValueId last_value_of(const Graph& g, const std::string& name) {
  ValueId found = g.find(name);
  if (found != kNone && g.value(found).kind == ValueKind::kComputed) return found;
  for (const Node& n : g.nodes()) {
    for (ValueId v : n.inputs) {
      if (v != kNone && g.value(v).kind == ValueKind::kParam &&
          g.value(v).name.starts_with(name + ".")) {
        found = n.outputs[0];
      }
    }
  }
  if (found != kNone && g.value(found).kind == ValueKind::kComputed) return found;
  std::string some;
  for (size_t i = g.nodes().size(); i-- > 0 && some.size() < 200;) {
    some += (some.empty() ? "" : ", ") + g.value(g.nodes()[i].outputs[0]).name;
  }
  throw Error("--freeze ", name, ": no value or layer has that name; the last ones are ", some);
}

// PyTorch's exporter calls a number that no parameter is val_N, and gives some of them a dim.
bool is_of_a_formula(const Value& v) {
  constexpr std::string_view kValue = "val_";
  if (v.type.shape.rank() == 0) return true;
  return v.type.shape.count() == 1 && v.name.starts_with(kValue) &&
         v.name.find_first_not_of("0123456789", kValue.size()) == std::string::npos;
}

bool is_number(const std::string& s, int64_t& n) {
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  return error == std::errc() && end == s.data() + s.size() && n >= 0;
}

}  // namespace

std::vector<std::string> trainable_parameters(const Model& m, const std::string& freeze) {
  const Graph g = bind(m, 1);
  int64_t layers = 0;
  std::set<ValueId> frozen;
  if (freeze == "auto") {
    frozen = ancestors(g, g.find(find_classifier(m).features));
  } else if (is_number(freeze, layers)) {
    frozen = first_layers(g, layers);
  } else if (freeze != "none") {
    frozen = ancestors(g, last_value_of(g, freeze));
  }
  for (const Node& n : g.nodes()) {
    if (n.op != "BatchNormalization") continue;
    frozen.insert(n.inputs.at(3));
    frozen.insert(n.inputs.at(4));
  }
  std::vector<std::string> names;
  for (ValueId v : g.params()) {
    const Value& value = g.value(v);
    if (!frozen.contains(v) && !is_of_a_formula(value)) names.push_back(value.name);
  }
  if (names.empty()) throw Error("--freeze ", freeze, ": nothing is left to train");
  return names;
}

std::map<std::string, double> layer_rates(const Model& m, double decay) {
  const Graph g = bind(m, 1);
  std::map<std::string, int64_t> layer_of;
  int64_t met = 0;
  for (const Node& n : g.nodes()) {
    met += has_weights(g, n);
    for (ValueId v : n.inputs) {
      if (v == kNone || g.value(v).kind != ValueKind::kParam) continue;
      layer_of[g.value(v).name] = std::max<int64_t>(met, 1);
    }
  }
  std::map<std::string, double> rates;
  for (const auto& [name, layer] : layer_of) {
    rates[name] = std::pow(decay, static_cast<double>(std::max<int64_t>(met, 1) - layer));
  }
  return rates;
}

std::vector<std::string> feature_names(const Model& m, const std::vector<std::string>& trainable) {
  const Graph g = bind(m, 1);
  std::vector<ValueId> values;
  for (const std::string& name : trainable) values.push_back(g.find(name));
  return split(g, values).features;
}

}  // namespace ndtrain
