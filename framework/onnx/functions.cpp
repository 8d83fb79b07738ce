#include "framework/onnx/functions.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "framework/core/limits.h"
#include "framework/onnx/own_functions.h"

namespace ndtrain {
namespace {

class Inliner {
 public:
  Inliner(OnnxModel& model, Problems& problems) : model_(model), problems_(problems) {
    for (const OnnxFunction& f : model.functions) {
      if (!functions_.emplace(std::tuple(f.domain, f.name, f.overload), &f).second) {
        problems_.add("function ", f.domain, ".", f.name, " is defined twice");
      }
    }
    for (const OnnxValue& v : model.inputs) names_.insert(v.name);
    for (const auto& [name, tensor] : model.initialisers) names_.insert(name);
    for (const OnnxNode& n : model.nodes) names_.insert(n.outputs.begin(), n.outputs.end());
  }

  void run() {
    std::vector<OnnxNode> calls = std::move(model_.nodes);
    for (OnnxNode& n : calls) add(std::move(n));
    model_.nodes = std::move(result_);
  }

 private:
  const OnnxFunction* find(const OnnxNode& n) const {
    if (n.domain == kOwnDomain && own_function_named(n.op) != nullptr) return nullptr;
    const auto it = functions_.find(std::tuple(n.domain, n.op, n.overload));
    return it == functions_.end() ? nullptr : it->second;
  }

  void add(OnnxNode n) {
    if (const OnnxFunction* f = find(n)) {
      call(n, *f);
      return;
    }
    count();
    for (auto& [name, graph] : n.graphs) graph = inlined(*graph);
    result_.push_back(std::move(n));
  }

  std::shared_ptr<const OnnxGraph> inlined(OnnxGraph graph) {
    std::vector<OnnxNode> outer = std::exchange(result_, {});
    std::vector<OnnxNode> calls = std::move(graph.nodes);
    for (OnnxNode& n : calls) add(std::move(n));
    graph.nodes = std::exchange(result_, std::move(outer));
    return std::make_shared<const OnnxGraph>(std::move(graph));
  }

  // Calls count too: functions of nothing but calls would double for ever.
  void count() {
    if (++counted_ > limits::kModelNodes) {
      throw Error("the model has more than ", limits::kModelNodes, " nodes and function calls");
    }
  }

  bool fits(const OnnxNode& n, const OnnxFunction& f) {
    if (std::ranges::find(stack_, &f) != stack_.end()) {
      problems_.add(describe(n), ": function ", f.name, " calls itself");
      return false;
    }
    if (stack_.size() >= limits::kFunctionDepth) {
      problems_.add(describe(n), ": functions are nested more than ", limits::kFunctionDepth,
                    " deep");
      return false;
    }
    if (n.inputs.size() > f.inputs.size() || n.outputs.size() > f.outputs.size()) {
      problems_.add(describe(n), ": has ", n.inputs.size(), " inputs and ", n.outputs.size(),
                    " outputs, function ", f.name, " ", f.inputs.size(), " and ", f.outputs.size());
      return false;
    }
    for (const auto& [name, value] : n.attrs) {
      if (f.attributes.contains(name)) continue;
      problems_.add(describe(n), ": function ", f.name, " has no attribute ", name);
      return false;
    }
    return true;
  }

  void call(const OnnxNode& n, const OnnxFunction& f) {
    if (!fits(n, f)) return;
    count();
    stack_.push_back(&f);
    std::map<std::string, std::string> names;
    for (size_t i = 0; i < f.inputs.size(); ++i) {
      names[f.inputs[i]] = i < n.inputs.size() ? n.inputs[i] : "";
    }
    std::vector<std::pair<std::string, std::string>> copies;
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i].empty()) continue;
      // An output that is an input, or that is given out twice, needs a node of its own.
      if (!names.emplace(f.outputs[i], n.outputs[i]).second) {
        copies.emplace_back(f.outputs[i], n.outputs[i]);
      }
    }
    const std::string prefix = (n.name.empty() ? n.op : n.name) + "/";
    for (const OnnxNode& inner : f.nodes) add(body_node(inner, n, f, prefix, names));
    for (const auto& [from, to] : copies) {
      OnnxNode copy;
      copy.op = "Identity";
      copy.opset = kMaxOpset;
      copy.inputs = {names[from]};
      copy.outputs = {to};
      add(std::move(copy));
    }
    stack_.pop_back();
  }

  OnnxNode body_node(const OnnxNode& inner, const OnnxNode& outer, const OnnxFunction& f,
                     const std::string& prefix, std::map<std::string, std::string>& names) {
    OnnxNode n = inner;
    n.name = prefix + (inner.name.empty() ? inner.op : inner.name);
    if (n.opset == 0) {
      const auto opset = model_.opsets.find(n.domain);
      if (opset != model_.opsets.end()) n.opset = opset->second;
    }
    const auto rename = [&](std::string& name) {
      if (name.empty()) return;
      const auto [it, added] = names.emplace(name, "");
      if (added) it->second = fresh(prefix + name);
      name = it->second;
    };
    std::ranges::for_each(n.inputs, rename);
    std::ranges::for_each(n.outputs, rename);
    for (const auto& [name, from] : inner.references) take(from, outer, f, name, n);
    n.references.clear();
    for (auto& [name, graph] : n.graphs) {
      OnnxGraph body = *graph;
      for (auto* values : {&body.inputs, &body.outputs, &body.values}) {
        for (OnnxValue& v : *values) rename(v.name);
      }
      body.initialisers.clear();
      for (const auto& [weight, tensor] : graph->initialisers) {
        std::string renamed = weight;
        rename(renamed);
        body.initialisers.emplace(renamed, tensor);
      }
      for (OnnxNode& b : body.nodes) b = body_node(b, outer, f, prefix, names);
      graph = std::make_shared<const OnnxGraph>(std::move(body));
    }
    return n;
  }

  // Attribute `name` of `n` is the call's `from`, else the function's default, else absent.
  static void take(const std::string& from, const OnnxNode& outer, const OnnxFunction& f,
                   const std::string& name, OnnxNode& n) {
    for (const OnnxNode* source : {&outer, &f.defaults}) {
      if (source->unsupported.contains(from)) {
        n.unsupported[name] = source->unsupported.at(from);
        return;
      }
      if (const auto it = source->strings.find(from); it != source->strings.end()) {
        n.strings[name] = it->second;
        return;
      }
      for (const auto& [key, value] : source->attrs) {
        if (key == from) return n.attrs.set(name, value);
      }
    }
  }

  std::string fresh(std::string name) {
    if (names_.contains(name)) {
      int& n = repeats_[name];
      std::string numbered;
      do {
        numbered = name + "#" + std::to_string(++n);
      } while (names_.contains(numbered));
      name = std::move(numbered);
    }
    names_.insert(name);
    return name;
  }

  OnnxModel& model_;
  Problems& problems_;
  std::map<std::tuple<std::string, std::string, std::string>, const OnnxFunction*> functions_;
  std::set<std::string> names_;
  std::map<std::string, int> repeats_;
  std::vector<const OnnxFunction*> stack_;
  std::vector<OnnxNode> result_;
  int64_t counted_ = 0;
};

}  // namespace

void inline_functions(OnnxModel& model, Problems& problems) { Inliner(model, problems).run(); }

}  // namespace ndtrain
