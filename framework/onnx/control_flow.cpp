#include "framework/onnx/control_flow.h"

#include <algorithm>
#include <utility>

#include "framework/core/limits.h"

namespace ndtrain {
namespace {

using Names = std::map<std::string, std::string>;  // in a graph -> in the model

// A graph within one that is put into the model: what it reads from there has new names.
OnnxGraph renamed(OnnxGraph g, Names names) {
  for (const OnnxValue& v : g.inputs) names.erase(v.name);
  for (const auto& [name, tensor] : g.initialisers) names.erase(name);
  for (const OnnxNode& n : g.nodes) {
    for (const std::string& name : n.outputs) names.erase(name);
  }
  const auto rename = [&](std::string& name) {
    if (const auto it = names.find(name); it != names.end()) name = it->second;
  };
  for (OnnxNode& n : g.nodes) {
    for (std::string& name : n.inputs) rename(name);
    for (auto& [attribute, inner] : n.graphs) {
      inner = std::make_shared<const OnnxGraph>(renamed(*inner, names));
    }
  }
  for (OnnxValue& v : g.outputs) rename(v.name);
  return g;
}

class Folded {
 public:
  Folded(const OnnxNode& n, Unfolding& to) : n_(n), to_(to) {}

  void branch() {
    if (n_.inputs.empty()) throw Error("has no condition");
    const OnnxGraph& g =
        graph(truth(n_.inputs[0], "its condition") ? "then_branch" : "else_branch");
    check_outputs(g.outputs.size());
    Names names = weights(g);
    const std::vector<std::string> results = put(g, names);
    for (size_t k = 0; k < n_.outputs.size(); ++k) copy(results[k], n_.outputs[k]);
  }

  void loop() {
    const OnnxGraph& body = graph("body");
    const size_t carried = n_.inputs.size() < 2 ? 0 : n_.inputs.size() - 2;
    if (body.inputs.size() != carried + 2 || body.outputs.size() < carried + 1) {
      throw Error("its body has ", body.inputs.size(), " inputs and ", body.outputs.size(),
                  " outputs, for ", carried, " values that it carries on");
    }
    check_outputs(body.outputs.size() - 1);
    std::vector<std::string> values(
        n_.inputs.begin() + static_cast<int64_t>(n_.inputs.size() - carried), n_.inputs.end());
    std::vector<std::vector<std::string>> scans(body.outputs.size() - 1 - carried);
    run(body, values, scans);
    for (size_t k = 0; k < n_.outputs.size(); ++k) {
      if (k < carried) {
        copy(values[k], n_.outputs[k]);
      } else {
        stack(scans[k - carried], 0, n_.outputs[k]);
      }
    }
  }

  // The states come first, among its inputs and outputs and the body's.
  void scan() {
    const OnnxGraph& body = graph("body");
    const int64_t number = n_.attrs.has("num_scan_inputs") ? n_.attrs.i("num_scan_inputs") : 0;
    const size_t inputs = n_.inputs.size(), scanned = static_cast<size_t>(number);
    if (n_.opset < 9) throw Error("is of opset ", n_.opset, ", which scans each image by itself");
    if (number < 1 || scanned > inputs || body.inputs.size() != inputs ||
        body.outputs.size() < inputs - scanned) {
      throw Error("its body has ", body.inputs.size(), " inputs and ", body.outputs.size(),
                  " outputs, it has ", inputs, " inputs of which num_scan_inputs ", scanned,
                  " are scanned");
    }
    check_outputs(body.outputs.size());
    const size_t states = inputs - scanned;
    std::vector<std::string> values(n_.inputs.begin(),
                                    n_.inputs.begin() + static_cast<int64_t>(states));
    std::vector<std::vector<std::string>> scans(body.outputs.size() - states);
    run_scan(body, values, scans);
    for (size_t k = 0; k < n_.outputs.size(); ++k) {
      if (k < states) {
        copy(values[k], n_.outputs[k]);
        continue;
      }
      std::vector<std::string>& parts = scans[k - states];
      if (of_each("scan_output_directions", k - states) != 0) std::ranges::reverse(parts);
      stack(parts, of_each("scan_output_axes", k - states), n_.outputs[k]);
    }
  }

 private:
  // An attribute with a number for each, or none, which is 0 for each.
  int64_t of_each(const char* attribute, size_t i) const {
    if (!n_.attrs.has(attribute)) return 0;
    const Ints& all = n_.attrs.ints(attribute);
    if (i >= all.size()) throw Error(attribute, " has only ", all.size(), " numbers");
    return all[i];
  }

  // How long input `name` is along an axis.
  int64_t extent(const std::string& name, int64_t axis) {
    const std::string shape = fresh("shape"), extent = fresh("extent");
    add("Shape", {name}, shape);
    add("Gather", {shape, number(Tensor::i64({axis}))}, extent);
    return known(extent, "how long what it scans is").to_ints()[0];
  }

  void run_scan(const OnnxGraph& body, std::vector<std::string>& values,
                std::vector<std::vector<std::string>>& scans) {
    const size_t states = values.size();
    const int64_t rounds = extent(n_.inputs[states], of_each("scan_input_axes", 0));
    for (size_t k = states + 1; k < n_.inputs.size(); ++k) {
      const int64_t other = extent(n_.inputs[k], of_each("scan_input_axes", k - states));
      if (other != rounds) throw Error("scans ", rounds, " and ", other, " parts at once");
    }
    if (rounds > limits::kLoopTrips) throw Error("runs more than ", limits::kLoopTrips, " times");
    Names names = weights(body);
    for (int64_t i = 0; i < rounds; ++i) {
      for (size_t k = 0; k < body.inputs.size(); ++k) {
        names[body.inputs[k].name] = k < states ? values[k] : slice(k, k - states, i, rounds);
      }
      const std::vector<std::string> results = put(body, names);
      for (size_t k = 0; k < results.size(); ++k) {
        if (k < states) {
          values[k] = results[k];
        } else {
          scans[k - states].push_back(results[k]);
        }
      }
    }
  }

  // What round `i` reads of input `k`, the m-th that is scanned.
  std::string slice(size_t k, size_t m, int64_t i, int64_t rounds) {
    const int64_t at = of_each("scan_input_directions", m) != 0 ? rounds - 1 - i : i;
    const std::string part = fresh("part");
    add("Gather", {n_.inputs[k], number(Tensor::of<int64_t>(DType::kI64, Shape{}, {at}))}, part,
        {{"axis", of_each("scan_input_axes", m)}});
    return part;
  }

  void run(const OnnxGraph& body, std::vector<std::string>& values,
           std::vector<std::vector<std::string>>& scans) {
    const int64_t most = trips();
    bool goes_on = given(1) ? truth(n_.inputs[1], "its first condition") : true;
    Names names = weights(body);
    for (int64_t i = 0; i < most && goes_on; ++i) {
      if (i >= limits::kLoopTrips) {
        throw Error("runs more than ", limits::kLoopTrips, " times");
      }
      names[body.inputs[0].name] = number(Tensor::of<int64_t>(DType::kI64, Shape{}, {i}));
      names[body.inputs[1].name] = number(Tensor::of<uint8_t>(DType::kBool, Shape{}, {1}));
      for (size_t k = 0; k < values.size(); ++k) names[body.inputs[k + 2].name] = values[k];
      const std::vector<std::string> results = put(body, names);
      for (size_t k = 0; k < values.size(); ++k) values[k] = results[k + 1];
      for (size_t k = 0; k < scans.size(); ++k) {
        scans[k].push_back(results[values.size() + 1 + k]);
      }
      goes_on = truth(results[0], "the condition of its body");
    }
  }

  bool given(size_t i) const { return i < n_.inputs.size() && !n_.inputs[i].empty(); }

  const OnnxGraph& graph(const char* attribute) const {
    const auto it = n_.graphs.find(attribute);
    if (it == n_.graphs.end()) throw Error("has no ", attribute);
    return *it->second;
  }

  void check_outputs(size_t there) const {
    if (n_.outputs.size() <= there) return;
    throw Error("has ", n_.outputs.size(), " outputs, its graph ", there);
  }

  const Tensor& known(const std::string& value, const char* what) {
    const Tensor* t = to_.known(value);
    if (t == nullptr) {
      throw Error(what, " ('", value,
                  "') depends on an input or on the batch, and a graph has one order: export the "
                  "model with what is wanted");
    }
    if (t->shape().count() != 1) throw Error(what, " is ", t->type(), ", not one number");
    return *t;
  }
  bool truth(const std::string& value, const char* what) {
    return known(value, what).to_doubles()[0] != 0;
  }
  int64_t trips() {
    if (!given(0)) return limits::kLoopTrips + 1;
    return known(n_.inputs[0], "how often it runs").to_ints()[0];
  }

  std::string number(Tensor value) {
    const std::string name = fresh("constant");
    to_.add_constant(name, std::move(value));
    return name;
  }
  std::string fresh(const std::string& hint) {
    return to_.fresh((n_.name.empty() ? n_.op : n_.name) + "/" + hint);
  }

  // Those of a graph are in the model once, however often it runs.
  Names weights(const OnnxGraph& g) {
    Names names;
    for (const auto& [name, tensor] : g.initialisers) {
      names[name] = fresh(name);
      to_.add_constant(names[name], tensor);
    }
    return names;
  }

  // The nodes of a graph, and the new names of its outputs.
  std::vector<std::string> put(const OnnxGraph& g, Names names) {
    const auto rename = [&](const std::string& name) {
      const auto it = names.find(name);
      return it == names.end() ? name : it->second;
    };
    for (const OnnxNode& inner : g.nodes) {
      OnnxNode n = inner;
      for (std::string& name : n.inputs) name = rename(name);
      for (auto& [attribute, nested] : n.graphs) {
        nested = std::make_shared<const OnnxGraph>(renamed(*nested, names));
      }
      for (std::string& name : n.outputs) {
        if (!name.empty()) name = names[name] = fresh(name);
      }
      to_.add(std::move(n));
    }
    std::vector<std::string> outputs;
    for (const OnnxValue& v : g.outputs) outputs.push_back(rename(v.name));
    return outputs;
  }

  void add(const char* op, std::vector<std::string> inputs, const std::string& output,
           Attrs attrs = {}) {
    OnnxNode n;
    n.op = op;
    n.name = fresh(op);
    n.opset = kMaxOpset;
    n.inputs = std::move(inputs);
    n.outputs = {output};
    n.attrs = std::move(attrs);
    to_.add(std::move(n));
  }

  void copy(const std::string& from, const std::string& to) {
    if (!to.empty()) add("Identity", {from}, to);
  }

  // One behind the other along a new axis.
  void stack(const std::vector<std::string>& parts, int64_t axis, const std::string& to) {
    if (to.empty()) return;
    if (parts.empty()) throw Error("runs no time, so that the shape of ", to, " is not known");
    const std::string axes = number(Tensor::i64({axis}));
    std::vector<std::string> rows, groups;
    for (size_t k = 0; k < parts.size(); ++k) {
      rows.push_back(fresh("row"));
      add("Unsqueeze", {parts[k], axes}, rows.back());
      if (rows.size() < limits::kPorts && k + 1 < parts.size()) continue;
      groups.push_back(fresh("rows"));
      add("Concat", std::exchange(rows, {}), groups.back(), {{"axis", axis}});
    }
    add("Concat", groups, to, {{"axis", axis}});
  }

  const OnnxNode& n_;
  Unfolding& to_;
};

}  // namespace

bool is_control_flow(const OnnxNode& n) {
  return n.domain.empty() && (n.op == "If" || n.op == "Loop" || n.op == "Scan");
}

void unfold(const OnnxNode& n, Unfolding& to) {
  if (n.op == "If") {
    Folded(n, to).branch();
  } else if (n.op == "Scan") {
    Folded(n, to).scan();
  } else {
    Folded(n, to).loop();
  }
}

}  // namespace ndtrain
