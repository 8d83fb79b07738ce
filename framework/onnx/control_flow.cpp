#include "framework/onnx/control_flow.h"

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
        stack(scans[k - carried], n_.outputs[k]);
      }
    }
  }

 private:
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

  // One behind the other along a new first axis.
  void stack(const std::vector<std::string>& parts, const std::string& to) {
    if (to.empty()) return;
    if (parts.empty()) throw Error("runs no time, so that the shape of ", to, " is not known");
    const std::string axes = number(Tensor::i64({0}));
    std::vector<std::string> rows;
    for (const std::string& part : parts) {
      rows.push_back(fresh("row"));
      add("Unsqueeze", {part, axes}, rows.back());
    }
    add("Concat", rows, to, {{"axis", int64_t{0}}});
  }

  const OnnxNode& n_;
  Unfolding& to_;
};

}  // namespace

bool is_control_flow(const OnnxNode& n) {
  return n.domain.empty() && (n.op == "If" || n.op == "Loop");
}

void unfold(const OnnxNode& n, Unfolding& to) {
  if (n.op == "If") {
    Folded(n, to).branch();
  } else {
    Folded(n, to).loop();
  }
}

}  // namespace ndtrain
