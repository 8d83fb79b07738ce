#include "framework/onnx/adapt.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "framework/core/limits.h"
#include "framework/graph/op.h"
#include "framework/onnx/batch_free.h"
#include "framework/onnx/control_flow.h"
#include "framework/onnx/own_functions.h"

namespace ndtrain {
namespace {

constexpr int64_t kTypicalBatch = 2;  // at which types are inferred where a rule needs them

// A rough guess forward, enough for the few old forms whose meaning hangs on a rank or a dtype.
ValueFact infer_fact(const ModelNode& n, const std::map<std::string, ValueFact>& known) {
  const OpFacts& op = find_op(n.op).facts;
  const auto of = [&](size_t i) {
    const auto it = i < n.inputs.size() ? known.find(n.inputs[i]) : known.end();
    return it == known.end() ? ValueFact{} : it->second;
  };
  ValueFact out;
  const RankRule rank = op.kind == OpKind::kMap ? RankRule::kLargest : op.rank;
  if (rank == RankRule::kTwo) out.rank = 2;
  if (rank == RankRule::kFirst || rank == RankRule::kLargest) out.rank = of(0).rank;
  for (size_t i = 1; i < n.inputs.size() && rank == RankRule::kLargest; ++i) {
    if (n.inputs[i].empty()) continue;
    const int other = of(i).rank;
    out.rank = other < 0 || out.rank < 0 ? -1 : std::max(out.rank, other);
  }
  if (n.attrs.has("to")) {
    out.dtype = static_cast<DType>(n.attrs.i("to"));
  } else if (n.op == "Constant" && n.attrs.has("value")) {
    out = {n.attrs.tensor("value").type().dtype, n.attrs.tensor("value").shape().rank()};
  } else if (n.op == "Where") {
    out.dtype = of(1).dtype;
  } else if (!op.own_dtype) {
    out.dtype = of(0).dtype;
  }
  return out;
}

class Adapter : private Unfolding {
 public:
  Adapter(const OnnxModel& from, Model& to, Problems& problems)
      : from_(from), to_(to), problems_(problems), types_(to, kTypicalBatch) {
    for (const auto* list : {&from.values, &from.inputs}) {
      for (const OnnxValue& v : *list) {
        facts_[v.name] = {v.dtype, v.has_shape ? static_cast<int>(v.dims.size()) : -1};
        names_.insert(v.name);
      }
    }
    for (const auto& [name, t] : from.initialisers) {
      facts_[name] = {t.type().dtype, t.shape().rank()};
      names_.insert(name);
    }
    learn_names(from);
    for (const OnnxValue& v : from.outputs) used_.insert(v.name);
  }

  void run() {
    for (const OnnxNode& n : from_.nodes) take(n);
  }

 private:
  // Those of branches and bodies too, which are used as often as they come.
  void learn_names(const OnnxGraph& g) {
    for (const OnnxNode& n : g.nodes) {
      names_.insert(n.outputs.begin(), n.outputs.end());
      used_.insert(n.inputs.begin(), n.inputs.end());
      for (const auto& [attribute, inner] : n.graphs) {
        learn_names(*inner);
        for (const OnnxValue& v : inner->outputs) used_.insert(v.name);
      }
    }
  }

  void take(OnnxNode n) {
    if (!accepts(n)) return;
    if (!is_control_flow(n)) return adapt(std::move(n));
    // Of a model that is refused already values are not known.
    if (!problems_.empty()) return;
    try {
      unfold(n, *this);
    } catch (const Error& e) {
      if (problems_.empty()) refuse(n, e.what());  // else a node within it was
    }
  }

  void count() const {
    const size_t made = to_.nodes.size() + to_.initialisers.size();
    if (static_cast<int64_t>(made) > limits::kModelNodes) {
      throw Error("makes more than ", limits::kModelNodes, " nodes and constants of the model");
    }
  }

  void add(OnnxNode n) override {
    count();
    used_.insert(n.inputs.begin(), n.inputs.end());
    used_.insert(n.outputs.begin(), n.outputs.end());
    take(std::move(n));
  }
  void add_constant(const std::string& name, Tensor value) override {
    count();
    facts_[name] = {value.type().dtype, value.shape().rank()};
    to_.initialisers.emplace(name, std::move(value));
  }
  std::string fresh(const std::string& hint) override {
    std::string name = hint;
    while (!names_.insert(name).second) name = hint + "#" + std::to_string(++repeats_[hint]);
    return name;
  }
  const Tensor* known(const std::string& value) override {
    if (!problems_.empty()) throw Error("what is refused before it may decide it");
    if (!batch_free_) batch_free_.emplace(to_);
    return batch_free_->find(value);
  }

  bool accepts(const OnnxNode& n) {
    const size_t before = refused_;
    const bool own = n.domain == kOwnDomain && own_function_named(n.op) != nullptr;
    const bool known_domain = n.domain.empty() || n.domain == "com.microsoft" || own;
    if (!known_domain) {
      refuse(n, "domain " + n.domain + " is not supported, and the model has no such function");
    } else if (n.domain.empty() && n.opset == 0) {
      refuse(n, "no opset is imported for ONNX's own operators");
    } else if (n.domain.empty() && (n.opset < kMinOpset || n.opset > kMaxOpset)) {
      refuse(n, "opset " + std::to_string(n.opset) + " is not supported, only " +
                    std::to_string(kMinOpset) + " to " + std::to_string(kMaxOpset));
    }
    for (const auto& [name, kind] : n.unsupported) {
      refuse(n, "attribute " + name + " is " + kind + ", which is not supported");
    }
    for (const auto& [name, from] : n.references) {
      refuse(n, "attribute " + name + " refers to " + from + ", but this is no function");
    }
    return refused_ == before;
  }

  void refuse(const OnnxNode& n, const std::string& why) {
    ++refused_;
    problems_.add(describe(n), ": ", why);
  }

  void adapt(OnnxNode n) {
    drop_absent(n);
    // The number of outputs says what these two mean.
    if (n.op != "Split" && n.op != "BatchNormalization") drop_unread(n);
    const std::string original = describe(n);
    Adaptation a(std::move(n), to_, facts_, names_, types_, problems_);
    const size_t first = to_.nodes.size();
    if (!a.node.domain.empty() && !apply_foreign(a, original)) return;
    for (const auto& rules : {onnx_rules(), composite_rules()}) {
      for (const AdaptRule& rule : rules) {
        if (a.node.domain.empty()) apply(rule, a);
      }
    }
    for (const auto& [name, value] : a.node.strings) {
      problems_.add(original, ": attribute ", name, " is strings, which is not supported");
    }
    if (a.refused() || !a.node.strings.empty()) return;
    finish(a, original);
    for (size_t i = first; i < to_.nodes.size(); ++i) {
      state_defaults(to_.nodes[i]);
      learn(to_.nodes[i]);
    }
  }

  static void drop_absent(OnnxNode& n) {
    while (!n.inputs.empty() && n.inputs.back().empty()) n.inputs.pop_back();
  }

  // Outputs nobody reads are not asked for.
  void drop_unread(OnnxNode& n) const {
    const OpDef* def = try_find_op(n.op);
    const auto least = static_cast<size_t>(def == nullptr ? 1 : def->min_outputs);
    while (n.outputs.size() > least && !used_.contains(n.outputs.back())) n.outputs.pop_back();
    while (!n.outputs.empty() && n.outputs.back().empty()) n.outputs.pop_back();
  }

  static bool apply(const AdaptRule& rule, Adaptation& a) {
    if (!rule.ops.empty() && std::ranges::find(rule.ops, a.node.op) == rule.ops.end()) return false;
    const bool foreign = !a.node.domain.empty();  // which has one version
    if (!foreign && (a.node.opset < rule.since || a.node.opset > rule.until)) return false;
    try {
      if (!foreign || !a.refused_before()) rule.apply(a);
    } catch (const std::out_of_range&) {  // of Adaptation::input()
      a.refuse("has only " + std::to_string(a.node.inputs.size()) + " inputs");
    } catch (const Error& e) {
      a.refuse(e.what());
    }
    return true;
  }

  bool apply_foreign(Adaptation& a, const std::string& original) {
    if (a.node.domain == kOwnDomain) {
      const OwnFunction& own = *own_function_named(a.node.op);
      a.node.op = own.op;
      a.node.attrs = own.attrs;
      return true;
    }
    for (const AdaptRule& rule : microsoft_rules()) {
      if (std::ranges::find(rule.ops, a.node.op) != rule.ops.end()) {
        apply(rule, a);
        return !a.refused();
      }
    }
    problems_.add(original, ": operator ", a.node.op, " of domain ", a.node.domain,
                  " is not supported");
    return false;
  }

  void finish(Adaptation& a, const std::string& original) {
    OnnxNode& n = a.node;
    const OpDef* def = try_find_op(n.op);
    if (def == nullptr) {
      problems_.add(original, ": operator ", n.op, " is not supported");
      return;
    }
    drop_absent(n);
    if (n.op != "Split") drop_unread(n);
    check(n, *def, original);
    to_.nodes.push_back({n.op, n.inputs, n.outputs, n.attrs});
    for (ModelNode& next : a.take_following()) to_.nodes.push_back(std::move(next));
  }

  void check(const OnnxNode& n, const OpDef& def, const std::string& original) {
    const auto arity = [&](const char* what, size_t have, int low, int high) {
      if (static_cast<int>(have) >= low && static_cast<int>(have) <= high) return;
      problems_.add(original, ": has ", have, " ", what, ", ", def.name, " takes ", low, " to ",
                    high);
    };
    arity("inputs", n.inputs.size(), def.min_inputs, def.max_inputs);
    arity("outputs", n.outputs.size(), def.min_outputs, def.max_outputs);
    for (const auto& [name, value] : n.attrs) {
      const auto spec = std::ranges::find(def.attrs, name, &AttrSpec::name);
      if (spec == def.attrs.end()) {
        problems_.add(original, ": attribute ", name, " is not supported");
      } else if (static_cast<size_t>(spec->kind) != value.index()) {
        problems_.add(original, ": attribute ", name, " is of the wrong type");
      }
    }
    for (const AttrSpec& spec : def.attrs) {
      if (spec.required && !n.attrs.has(spec.name))
        problems_.add(original, ": attribute ", spec.name, " is missing");
    }
  }

  static void state_defaults(ModelNode& n) {
    for (const AttrSpec& spec : find_op(n.op).attrs) {
      if (!spec.fallback || n.attrs.has(spec.name)) continue;
      n.attrs.set(std::string(spec.name), as_stored(*spec.fallback));
    }
  }

  // A default as it would read had the file stated it: ONNX's floats are of single precision.
  static Attr as_stored(Attr a) {
    if (double* f = std::get_if<double>(&a)) *f = static_cast<float>(*f);
    return a;
  }

  void learn(const ModelNode& n) {
    const ValueFact fact = infer_fact(n, facts_);
    const bool all = n.op == "Split";
    for (size_t k = 0; k < n.outputs.size() && (k == 0 || all); ++k) {
      ValueFact& known = facts_[n.outputs[k]];
      if (known.dtype == DType::kNone) known.dtype = fact.dtype;
      if (known.rank < 0) known.rank = fact.rank;
    }
  }

  const OnnxModel& from_;
  Model& to_;
  Problems& problems_;
  std::map<std::string, ValueFact> facts_;
  std::set<std::string> names_, used_;
  GrowingTypes types_;
  std::optional<BatchFree> batch_free_;
  std::map<std::string, int> repeats_;  // of names that were asked for
  size_t refused_ = 0;
};

}  // namespace

void adapt_nodes(const OnnxModel& from, Model& to, Problems& problems) {
  Adapter(from, to, problems).run();
}

}  // namespace ndtrain
