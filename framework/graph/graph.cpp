#include "framework/graph/graph.h"

#include <utility>

#include "framework/core/limits.h"
#include "framework/graph/op.h"

namespace ndtrain {
namespace {

bool has_kind(const Attr& a, AttrSpec::Kind kind) { return a.index() == static_cast<size_t>(kind); }

// Every attribute is one the op knows, of the right kind; defaults are filled in.
void complete_attrs(const OpDef& def, Attrs& attrs) {
  for (const auto& [name, attr] : attrs) {
    const AttrSpec* spec = nullptr;
    for (const AttrSpec& s : def.attrs) {
      if (s.name == name) spec = &s;
    }
    if (!spec) throw Error("unsupported attribute ", name);
    if (!has_kind(attr, spec->kind)) throw Error("attribute ", name, " has the wrong type");
  }
  for (const AttrSpec& s : def.attrs) {
    if (attrs.has(s.name)) continue;
    if (s.fallback) attrs.set(std::string(s.name), *s.fallback);
    if (s.required) throw Error("attribute ", s.name, " is missing");
  }
}

void check_arity(const char* what, int n, int min, int max) {
  if (n >= min && n <= max && n <= limits::kPorts) return;
  throw Error("takes ", min, min == max ? "" : " to ", min == max ? "" : std::to_string(max), " ",
              what, ", was given ", n);
}

}  // namespace

ValueId Graph::new_value(std::string name, TensorType type, ValueKind kind, Tensor data) {
  values_.push_back({std::move(name), std::move(type), kind, std::move(data)});
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Graph::add_input(std::string name, TensorType type) {
  return inputs_.emplace_back(new_value(std::move(name), std::move(type), ValueKind::kInput));
}

ValueId Graph::add_param(std::string name, TensorType type) {
  return params_.emplace_back(new_value(std::move(name), std::move(type), ValueKind::kParam));
}

ValueId Graph::add_param(std::string name, Tensor data) {
  TensorType type = data.type();
  return params_.emplace_back(
      new_value(std::move(name), std::move(type), ValueKind::kParam, std::move(data)));
}

ValueId Graph::add_constant(std::string name, Tensor data) {
  if (!data.defined()) throw Error("constant '", name, "' has no data");
  TensorType type = data.type();
  return new_value(std::move(name), std::move(type), ValueKind::kConstant, std::move(data));
}

std::vector<ValueId> Graph::add(std::string op, std::vector<ValueId> inputs, Attrs attrs,
                                int outputs) try {
  const OpDef& def = find_op(op);
  while (!inputs.empty() && inputs.back() == kNone) inputs.pop_back();
  if (outputs == 0) outputs = def.min_outputs;
  check_arity("inputs", static_cast<int>(inputs.size()), def.min_inputs, def.max_inputs);
  check_arity("outputs", outputs, def.min_outputs, def.max_outputs);

  std::vector<TensorType> in, out;
  std::vector<Tensor> known, out_known(static_cast<size_t>(outputs));
  for (ValueId v : inputs) {
    in.push_back(v == kNone ? TensorType{DType::kNone, {}} : type(v));
    known.push_back(v == kNone ? Tensor() : value(v).data);
  }
  complete_attrs(def, attrs);
  if (def.complete) def.complete(attrs, in);
  InferContext context{attrs, in, known, outputs, out, out_known};
  def.infer(context);
  if (out.size() != static_cast<size_t>(outputs)) {
    throw Error("has ", out.size(), " outputs here, ", outputs, " were asked for");
  }

  std::vector<ValueId> result;
  bool all_known = true;
  for (size_t k = 0; k < out.size(); ++k) {
    std::string name = op + "_" + std::to_string(values_.size());
    const bool is_known = out_known[k].defined();
    all_known &= is_known;
    result.push_back(is_known
                         ? add_constant(std::move(name), std::move(out_known[k]))
                         : new_value(std::move(name), std::move(out[k]), ValueKind::kComputed));
  }
  // A node all of whose outputs are known (Shape, Constant) has nothing left to run.
  if (!all_known) nodes_.push_back({std::move(op), std::move(inputs), result, std::move(attrs)});
  return result;
} catch (const Error& e) {
  const std::string_view what = e.what();
  if (what.starts_with(op + ": ") || what.starts_with("unknown op")) throw;
  throw Error(op, ": ", what);
}

void Graph::rename(ValueId v, std::string name) { values_.at(index(v)).name = std::move(name); }

void Graph::set_data(ValueId v, Tensor data) {
  Value& value = values_.at(index(v));
  if (value.kind != ValueKind::kParam || data.type() != value.type) {
    throw Error("cannot give '", value.name, "' (", value.type, ") data of ", data.type());
  }
  value.data = std::move(data);
}

ValueId Graph::find(std::string_view name) const {
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].name == name) return static_cast<ValueId>(i);
  }
  return kNone;
}

std::vector<bool> depends_on(const Graph& g, std::span<const ValueId> roots) {
  std::vector<bool> d(g.value_count());
  for (ValueId v : roots) d[index(v)] = true;
  for (const Node& n : g.nodes()) {
    bool any = false;
    for (ValueId v : n.inputs) any |= v != kNone && d[index(v)];
    if (!any) continue;
    for (ValueId v : n.outputs) d[index(v)] = true;
  }
  return d;
}

}  // namespace ndtrain
