#include <google/protobuf/unknown_field_set.h>
#include <onnx/onnx_pb.h>

#include "framework/core/limits.h"
#include "framework/onnx/onnx_model.h"
#include "framework/onnx/problems.h"
#include "framework/onnx/tensor_proto.h"

namespace ndtrain {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;
using onnx::AttributeProto;

// Fields that the generated classes of ONNX 1.12 (Debian 12) keep as unknown, those of 1.17 have.
constexpr int kNodeOverload = 8, kFunctionDefaults = 11, kFunctionOverload = 13;

std::string plain_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

template <typename F>
void for_unknown(const UnknownFieldSet& fields, int number, F f) {
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() == number && field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      f(field.length_delimited());
    }
  }
}

template <typename Proto>
std::string overload_of(const Proto& p, int number) {
  if constexpr (requires { p.overload(); }) {
    return p.overload();
  } else {
    std::string value;
    for_unknown(p.unknown_fields(), number, [&](const std::string& s) { value = s; });
    return value;
  }
}

// Throws Error where one cannot be read.
template <typename Function>
std::vector<AttributeProto> defaults_of(const Function& f) {
  if constexpr (requires { f.attribute_proto(); }) {
    return {f.attribute_proto().begin(), f.attribute_proto().end()};
  } else {
    std::vector<AttributeProto> defaults;
    for_unknown(f.unknown_fields(), kFunctionDefaults, [&](const std::string& bytes) {
      if (!defaults.emplace_back().ParseFromString(bytes)) {
        throw Error("a default attribute cannot be read");
      }
    });
    return defaults;
  }
}

template <typename From>
std::vector<std::string> strings(const From& from) {
  return {from.begin(), from.end()};
}

template <typename From>
std::map<std::string, int64_t> opset_imports(const From& from) {
  std::map<std::string, int64_t> opsets;
  for (const auto& o : from) opsets[plain_domain(o.domain())] = o.version();
  return opsets;
}

// IR version 1 had no types: the field that is there tells.
AttributeProto::AttributeType attribute_type(const AttributeProto& a) {
  if (a.type() != AttributeProto::UNDEFINED) return a.type();
  if (a.has_f()) return AttributeProto::FLOAT;
  if (a.has_i()) return AttributeProto::INT;
  if (a.has_s()) return AttributeProto::STRING;
  if (a.has_t()) return AttributeProto::TENSOR;
  if (a.has_g()) return AttributeProto::GRAPH;
  if (a.ints_size() > 0) return AttributeProto::INTS;
  if (a.floats_size() > 0) return AttributeProto::FLOATS;
  return AttributeProto::UNDEFINED;
}

const char* unsupported_kind(AttributeProto::AttributeType type) {
  switch (type) {
    case AttributeProto::GRAPHS:
      return "several graphs";
    case AttributeProto::SPARSE_TENSOR:
    case AttributeProto::SPARSE_TENSORS:
      return "a sparse tensor";
    case AttributeProto::TENSORS:
      return "tensors";
    case AttributeProto::TYPE_PROTO:
    case AttributeProto::TYPE_PROTOS:
      return "a type";
    default:
      return "of no known kind";
  }
}

class Parser {
 public:
  explicit Parser(const ExternalData* external) : external_(external) {}

  OnnxModel run(onnx::ModelProto& m) {
    OnnxModel out;
    out.ir = m.ir_version();
    out.producer = m.producer_name();
    out.opsets = opset_imports(m.opset_import());
    for (const auto& p : m.metadata_props()) out.metadata[p.key()] = p.value();
    for (auto& f : *m.mutable_functions()) out.functions.push_back(function(f));
    opsets_ = &out.opsets;
    graph(*m.mutable_graph(), out);
    problems_.throw_if_any("unreadable model");
    return out;
  }

 private:
  void attribute(AttributeProto& a, OnnxNode& n) {
    if (!a.ref_attr_name().empty()) {
      n.references[a.name()] = a.ref_attr_name();
      return;
    }
    switch (const auto type = attribute_type(a)) {
      case AttributeProto::FLOAT:
        return n.attrs.set(a.name(), double{a.f()});
      case AttributeProto::INT:
        return n.attrs.set(a.name(), int64_t{a.i()});
      case AttributeProto::STRING:
        return n.attrs.set(a.name(), a.s());
      case AttributeProto::INTS:
        return n.attrs.set(a.name(), Ints(a.ints().begin(), a.ints().end()));
      case AttributeProto::FLOATS:
        return n.attrs.set(a.name(), Floats(a.floats().begin(), a.floats().end()));
      case AttributeProto::STRINGS:
        n.strings[a.name()] = strings(a.strings());
        return;
      case AttributeProto::TENSOR:
        return tensor_attribute(a, n);
      case AttributeProto::GRAPH:
        return graph_attribute(a, n);
      default:
        n.unsupported[a.name()] = unsupported_kind(type);
    }
  }

  void tensor_attribute(const AttributeProto& a, OnnxNode& n) try {
    n.attrs.set(a.name(), tensor_from_proto(a.t(), external_));
  } catch (const Error& e) {
    problems_.add(describe(n), ": attribute ", a.name(), ": ", e.what());
  }

  void graph_attribute(AttributeProto& a, OnnxNode& n) {
    if (depth_ >= limits::kGraphDepth) {
      throw Error(describe(n), ": graphs are nested more than ", limits::kGraphDepth, " deep");
    }
    ++depth_;
    auto inner = std::make_shared<OnnxGraph>();
    graph(*a.mutable_g(), *inner);
    n.graphs[a.name()] = std::move(inner);
    --depth_;
  }

  OnnxNode node(onnx::NodeProto& p, const std::map<std::string, int64_t>& opsets) {
    OnnxNode n;
    n.domain = plain_domain(p.domain());
    n.op = p.op_type();
    n.name = p.name();
    n.overload = overload_of(p, kNodeOverload);
    n.inputs = strings(p.input());
    n.outputs = strings(p.output());
    const auto opset = opsets.find(n.domain);
    if (opset != opsets.end()) n.opset = opset->second;
    for (auto& a : *p.mutable_attribute()) attribute(a, n);
    return n;
  }

  OnnxFunction function(onnx::FunctionProto& p) {
    OnnxFunction f;
    f.domain = plain_domain(p.domain());
    f.name = p.name();
    f.overload = overload_of(p, kFunctionOverload);
    f.inputs = strings(p.input());
    f.outputs = strings(p.output());
    f.attributes = {p.attribute().begin(), p.attribute().end()};
    f.opsets = opset_imports(p.opset_import());
    f.defaults.op = f.name;
    try {
      for (AttributeProto& a : defaults_of(p)) {
        f.attributes.insert(a.name());
        attribute(a, f.defaults);
      }
    } catch (const Error& e) {
      problems_.add("function ", f.name, ": ", e.what());
    }
    opsets_ = &f.opsets;
    for (auto& n : *p.mutable_node()) f.nodes.push_back(node(n, f.opsets));
    return f;
  }

  OnnxValue value(const onnx::ValueInfoProto& p) {
    OnnxValue v;
    v.name = p.name();
    if (!p.type().has_tensor_type()) {
      const bool sequence = p.type().has_sequence_type();
      v.kind = sequence ? "a sequence" : p.has_type() ? "no plain tensor" : "of no type";
      return v;
    }
    const auto& t = p.type().tensor_type();
    try {
      v.dtype = dtype_from_onnx(t.elem_type());
    } catch (const Error&) {
      v.kind = "a tensor of " + onnx_dtype_name(t.elem_type());
    }
    v.has_shape = t.has_shape();
    for (const auto& d : t.shape().dim()) {
      v.dims.push_back(d.has_dim_value() ? d.dim_value() : kBatch);
      v.names.push_back(d.dim_param());
      if (d.has_dim_value() && d.dim_value() < 0) {
        problems_.add("value '", v.name, "' has the negative dimension ", d.dim_value());
      }
    }
    return v;
  }

  void graph(onnx::GraphProto& g, OnnxGraph& out) {
    for (const auto& v : g.input()) out.inputs.push_back(value(v));
    for (const auto& v : g.output()) out.outputs.push_back(value(v));
    for (const auto& v : g.value_info()) out.values.push_back(value(v));
    for (auto& t : *g.mutable_initializer()) {
      initialiser(t, out);
      std::string().swap(*t.mutable_raw_data());  // clearing it would keep the memory
    }
    for (const auto& t : g.sparse_initializer()) {
      problems_.add("initialiser '", t.values().name(), "' is sparse, which is not supported");
    }
    for (auto& n : *g.mutable_node()) out.nodes.push_back(node(n, *opsets_));
  }

  void initialiser(const onnx::TensorProto& t, OnnxGraph& out) try {
    if (t.name().empty()) throw Error("has no name");
    if (!out.initialisers.emplace(t.name(), tensor_from_proto(t, external_)).second) {
      throw Error("is there twice");
    }
  } catch (const Error& e) {
    problems_.add("initialiser '", t.name(), "': ", e.what());
  }

  const ExternalData* external_;
  const std::map<std::string, int64_t>* opsets_ = nullptr;  // of the model or function that is read
  int depth_ = 0;                                           // of graphs in attributes
  Problems problems_;
};

void gather_captured(const OnnxNode& node, std::set<std::string>& names) {
  for (const auto& [attribute, graph] : node.graphs) {
    std::set<std::string> read;
    for (const OnnxNode& n : graph->nodes) {
      read.insert(n.inputs.begin(), n.inputs.end());
      gather_captured(n, read);
    }
    for (const OnnxValue& v : graph->outputs) read.insert(v.name);
    for (const OnnxValue& v : graph->inputs) read.erase(v.name);
    for (const auto& [name, tensor] : graph->initialisers) read.erase(name);
    for (const OnnxNode& n : graph->nodes) {
      for (const std::string& name : n.outputs) read.erase(name);
    }
    read.erase("");
    names.merge(read);
  }
}

}  // namespace

std::string describe(const OnnxNode& node) {
  const std::string output = node.outputs.empty() ? "nothing" : "'" + node.outputs[0] + "'";
  return (node.name.empty() ? "node computing " + output : "node '" + node.name + "'") + " (" +
         (node.domain.empty() ? "" : node.domain + ".") + node.op + ")";
}

std::set<std::string> captured(const OnnxNode& node) {
  std::set<std::string> names;
  gather_captured(node, names);
  return names;
}

OnnxModel parse_onnx(std::string bytes, const ExternalData* external) {
  if (static_cast<int64_t>(bytes.size()) > limits::kModelFile) {
    throw Error("the model has ", bytes.size(), " bytes, more than the ", limits::kModelFile,
                " that protobuf allows; store its weights as external data");
  }
  onnx::ModelProto m;
  if (!m.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw Error("not an ONNX model, or a truncated one: protobuf cannot parse its ", bytes.size(),
                " bytes");
  }
  std::string().swap(bytes);
  if (!m.has_graph()) throw Error("no ONNX model, or a truncated one: it has no graph");
  return Parser(external).run(m);
}

Result<std::string> with_weights_inside(std::string bytes, const ExternalData& external) {
  onnx::ModelProto m;
  const bool parsed = static_cast<int64_t>(bytes.size()) <= limits::kModelFile &&
                      m.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  if (!parsed) return bytes;  // who imports it says what is wrong
  const Status too_large(Code::kTooLarge, "with its weights the model has more bytes than the " +
                                              std::to_string(limits::kModelFile) +
                                              " of one file, which is wanted here");
  auto total = static_cast<int64_t>(bytes.size());
  bool any = false;
  for (onnx::TensorProto& t : *m.mutable_graph()->mutable_initializer()) {
    if (t.data_location() != onnx::TensorProto::EXTERNAL) continue;
    any = true;
    try {
      const Tensor read = tensor_from_proto(t, &external);
      total += static_cast<int64_t>(read.bytes());
      if (total > limits::kModelFile) return too_large;
      onnx::TensorProto inside;
      tensor_to_proto(read, t.name(), inside);
      t = std::move(inside);
    } catch (const Error& e) {
      return Status(Code::kCorrupt, "initialiser '" + t.name() + "': " + e.what());
    }
  }
  if (!any) return bytes;
  if (static_cast<int64_t>(m.ByteSizeLong()) > limits::kModelFile) return too_large;
  return m.SerializeAsString();
}

}  // namespace ndtrain
