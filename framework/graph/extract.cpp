#include <algorithm>
#include <set>

#include "framework/graph/model.h"
#include "framework/graph/op.h"
#include "framework/graph/uses.h"

namespace ndtrain {
namespace {

class Extraction {
 public:
  Extraction(const Model& model, std::span<const std::string> inputs)
      : model_(model), inputs_(inputs.begin(), inputs.end()), uses_(uses_of(model, model.outputs)) {
    for (const std::string& name : inputs_) {
      if (!is_model_input(name) && !producer(name)) {
        throw Error("there is no value '", name, "' to cut at");
      }
    }
    mark_values_before_the_cut();
    mark_values_behind_the_cut();
  }

  Model run(std::span<const std::string> outputs) {
    for (const std::string& name : outputs) need(name);
    for (const ModelNode& n : model_.nodes) {
      if (!keep_.contains(&n)) continue;
      if (n.op == "Shape" && before_.contains(n.inputs[0])) {
        emit_shape(n);
      } else {
        out_.nodes.push_back(n);
      }
    }
    for (const std::string& name : inputs_) out_.inputs.push_back(describe(name));
    out_.outputs.assign(outputs.begin(), outputs.end());
    out_.metadata = model_.metadata;
    return std::move(out_);
  }

 private:
  bool is_input(const std::string& name) const {
    return std::ranges::find(inputs_, name) != inputs_.end();
  }

  bool is_model_input(const std::string& name) const {
    return std::ranges::any_of(model_.inputs, [&](const auto& in) { return in.name == name; });
  }

  const ModelNode* producer(const std::string& name) const {  // null: none
    const int i = uses_.producer(name);
    return i < 0 ? nullptr : &model_.nodes[static_cast<size_t>(i)];
  }

  // Values that a run of the part cannot have: they need an input of the model that is not given.
  void mark_values_before_the_cut() {
    for (const ModelInput& in : model_.inputs) {
      if (!is_input(in.name)) before_.insert(in.name);
    }
    for (const ModelNode& n : model_.nodes) {
      if (!reads_from(n, before_) || n.op == "Shape") continue;
      for (const std::string& name : n.outputs) {
        if (!name.empty() && !is_input(name)) before_.insert(name);
      }
    }
  }

  void mark_values_behind_the_cut() {
    behind_.insert(inputs_.begin(), inputs_.end());
    for (const ModelNode& n : model_.nodes) {
      if (!reads_from(n, behind_)) continue;
      for (const std::string& name : n.outputs) {
        if (!name.empty()) behind_.insert(name);
      }
    }
  }

  static bool reads_from(const ModelNode& n, const std::set<std::string>& values) {
    return std::ranges::any_of(n.inputs,
                               [&](const std::string& name) { return values.contains(name); });
  }

  // The value that would have to cross as well for `name` to be computed.
  const std::string& missing_for(const std::string& name) const {
    const ModelNode* n = producer(name);
    if (!n || !reads_from(*n, behind_)) return name;
    for (const std::string& in : n->inputs) {
      if (before_.contains(in)) return missing_for(in);
    }
    return name;
  }

  void need(const std::string& name) {
    if (name.empty() || is_input(name) || !seen_.insert(name).second) return;
    const auto weight = model_.initialisers.find(name);
    if (weight != model_.initialisers.end()) {
      out_.initialisers.insert(*weight);
      return;
    }
    const ModelNode* n = producer(name);
    if (!n || before_.contains(name)) {
      throw Error("cannot cut here: '", missing_for(name),
                  "' is needed behind the cut but does not cross it");
    }
    keep_.insert(n);
    if (n->op == "Shape" && before_.contains(n->inputs[0])) return;
    for (const std::string& in : n->inputs) need(in);
  }

  // The extents of a value for batches of 1 and of 2: what differs is the batch.
  const Graph& bound(int64_t batch) {
    auto it = bound_.find(batch);
    if (it == bound_.end()) it = bound_.emplace(batch, bind(with_all_values(), batch)).first;
    return it->second;
  }

  // Every computed value an output, so that none is dead.
  Model with_all_values() const {
    Model m = model_;
    m.outputs.clear();
    for (const ModelNode& n : m.nodes) {
      for (const std::string& name : n.outputs) {
        if (!name.empty()) m.outputs.push_back(name);
      }
    }
    return m;
  }

  ModelInput describe(const std::string& name) {
    for (const ModelInput& in : model_.inputs) {
      if (in.name == name) return in;
    }
    const Graph &one = bound(1), &two = bound(2);
    const ValueId a = one.find(name), b = two.find(name);
    if (a == kNone || b == kNone) throw Error("there is no value '", name, "' to cut at");
    ModelInput in{name, one.type(a).dtype, one.shape(a).dims()};
    const std::vector<int64_t>& other = two.shape(b).dims();
    for (size_t i = 0; i < in.dims.size(); ++i) {
      if (in.dims[i] == other.at(i)) continue;
      if (i != 0 || in.dims[i] != 1 || other[i] != 2) {
        throw Error("cannot cut at '", name, "': dim ", i, " is ", in.dims[i],
                    " for a batch of 1 and ", other[i],
                    " for a batch of 2; only the first may be the batch");
      }
      in.dims[i] = kBatch;
    }
    return in;
  }

  // Shape(v), v before the cut: the batch comes from the first feature, the rest is known.
  void emit_shape(const ModelNode& n) {
    const std::vector<int64_t> dims = describe(n.inputs[0]).dims;
    const Shape rank(std::vector<int64_t>(dims.size(), 1));
    const int64_t last = static_cast<int64_t>(dims.size());
    auto clamp = [&](int64_t i) { return std::clamp(i < 0 ? i + last : i, int64_t{0}, last); };
    const int64_t begin = clamp(n.attrs.has("start") ? n.attrs.i("start") : 0);
    const int64_t end = clamp(n.attrs.has("end") ? n.attrs.i("end") : last);
    const std::string& out = n.outputs.at(0);
    std::vector<std::string> parts;
    for (int64_t i = begin; i < end; ++i) {
      if (dims[static_cast<size_t>(i)] == kBatch) {
        if (describe(inputs_.at(0)).dims.at(0) != kBatch) {
          throw Error("cannot cut at '", inputs_[0], "': it does not tell the batch");
        }
        parts.push_back(out + ".batch");
        out_.nodes.push_back(
            {"Shape", {inputs_[0]}, {parts.back()}, {{"start", int64_t{0}}, {"end", int64_t{1}}}});
      } else {
        parts.push_back(out + ".dim" + std::to_string(i));
        out_.initialisers[parts.back()] = Tensor::i64({dims[static_cast<size_t>(i)]});
      }
    }
    if (parts.empty()) {
      out_.initialisers[out] = Tensor::i64({});
    } else {
      out_.nodes.push_back({"Concat", parts, {out}, {{"axis", int64_t{0}}}});
    }
  }

  const Model& model_;
  std::vector<std::string> inputs_;
  Uses<std::string> uses_;
  std::set<std::string> before_, behind_, seen_;
  std::set<const ModelNode*> keep_;
  std::map<int64_t, Graph> bound_;
  Model out_;
};

}  // namespace

Model extract(const Model& model, std::span<const std::string> inputs,
              std::span<const std::string> outputs) {
  return Extraction(model, inputs).run(outputs);
}

}  // namespace ndtrain
