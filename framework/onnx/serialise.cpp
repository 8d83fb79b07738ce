#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>

#include "framework/core/limits.h"
#include "framework/onnx/onnx_model.h"
#include "framework/onnx/tensor_proto.h"

namespace ndtrain {
namespace {

using onnx::AttributeProto;

class AttributeWriter {
 public:
  explicit AttributeWriter(AttributeProto& to) : to_(to) {}

  void operator()(int64_t v) {
    to_.set_type(AttributeProto::INT);
    to_.set_i(v);
  }
  void operator()(double v) {
    to_.set_type(AttributeProto::FLOAT);
    to_.set_f(static_cast<float>(v));
  }
  void operator()(const std::string& v) {
    to_.set_type(AttributeProto::STRING);
    to_.set_s(v);
  }
  void operator()(const Ints& v) {
    to_.set_type(AttributeProto::INTS);
    for (int64_t i : v) to_.add_ints(i);
  }
  void operator()(const Floats& v) {
    to_.set_type(AttributeProto::FLOATS);
    for (double f : v) to_.add_floats(static_cast<float>(f));
  }
  void operator()(const Tensor& v) {
    to_.set_type(AttributeProto::TENSOR);
    tensor_to_proto(v, "", *to_.mutable_t());
  }

 private:
  AttributeProto& to_;
};

void write_node(const OnnxNode& n, onnx::NodeProto& p) {
  p.set_op_type(n.op);
  if (!n.domain.empty()) p.set_domain(n.domain);
  if (!n.name.empty()) p.set_name(n.name);
  for (const std::string& name : n.inputs) p.add_input(name);
  for (const std::string& name : n.outputs) p.add_output(name);
  for (const auto& [name, value] : n.attrs) {
    AttributeProto& a = *p.add_attribute();
    a.set_name(name);
    std::visit(AttributeWriter(a), value);
  }
}

void write_opsets(const std::map<std::string, int64_t>& opsets,
                  google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& to) {
  for (const auto& [domain, version] : opsets) {
    onnx::OperatorSetIdProto& o = *to.Add();
    o.set_domain(domain);
    o.set_version(version);
  }
}

void write_function(const OnnxFunction& f, onnx::FunctionProto& p) {
  p.set_domain(f.domain);
  p.set_name(f.name);
  for (const std::string& name : f.inputs) p.add_input(name);
  for (const std::string& name : f.outputs) p.add_output(name);
  write_opsets(f.opsets, *p.mutable_opset_import());
  for (const OnnxNode& n : f.nodes) write_node(n, *p.add_node());
}

void write_value(const OnnxValue& v, onnx::ValueInfoProto& p) {
  p.set_name(v.name);
  if (v.dtype == DType::kNone) return;
  auto& t = *p.mutable_type()->mutable_tensor_type();
  t.set_elem_type(static_cast<int32_t>(dtype_to_onnx(v.dtype)));
  if (!v.has_shape) return;
  auto& shape = *t.mutable_shape();
  for (size_t i = 0; i < v.dims.size(); ++i) {
    auto& d = *shape.add_dim();
    if (v.dims[i] >= 0) {
      d.set_dim_value(v.dims[i]);
    } else if (!v.names[i].empty()) {
      d.set_dim_param(v.names[i]);
    }
  }
}

void write_external(const Tensor& t, const std::string& name, const std::string& location,
                    int64_t offset, onnx::TensorProto& p) {
  describe_to_proto(t, name, p);
  p.set_data_location(onnx::TensorProto::EXTERNAL);
  const std::pair<const char*, std::string> entries[] = {{"location", location},
                                                         {"offset", std::to_string(offset)},
                                                         {"length", std::to_string(t.bytes())}};
  for (const auto& [key, value] : entries) {
    onnx::StringStringEntryProto& entry = *p.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
}

[[noreturn]] void too_large(size_t bytes) {
  throw Error("the model takes ", bytes, " bytes as ONNX, more than the ", limits::kModelFile,
              " that protobuf allows; split it, or store its weights in half precision");
}

}  // namespace

std::string serialise_onnx(const OnnxModel& model, const ExternalWeights& external) {
  size_t weights = 0;
  for (const auto& [name, t] : model.initialisers) {
    if (!external.offsets.contains(name)) weights += t.bytes();
  }
  if (weights > static_cast<size_t>(limits::kModelFile)) too_large(weights);

  onnx::ModelProto m;
  m.set_ir_version(model.ir);
  m.set_producer_name(model.producer);
  write_opsets(model.opsets, *m.mutable_opset_import());
  onnx::GraphProto& g = *m.mutable_graph();
  g.set_name("model");
  for (const OnnxNode& n : model.nodes) write_node(n, *g.add_node());
  for (const auto& [name, t] : model.initialisers) {
    const auto at = external.offsets.find(name);
    if (at == external.offsets.end()) {
      tensor_to_proto(t, name, *g.add_initializer());
    } else {
      write_external(t, name, external.location, at->second, *g.add_initializer());
    }
  }
  for (const OnnxValue& v : model.inputs) write_value(v, *g.add_input());
  for (const OnnxValue& v : model.outputs) write_value(v, *g.add_output());
  for (const auto& [key, value] : model.metadata) {
    onnx::StringStringEntryProto& p = *m.add_metadata_props();
    p.set_key(key);
    p.set_value(value);
  }
  for (const OnnxFunction& f : model.functions) write_function(f, *m.add_functions());

  const size_t bytes = m.ByteSizeLong();
  if (bytes > static_cast<size_t>(limits::kModelFile)) too_large(bytes);
  std::string out;
  out.reserve(bytes);
  google::protobuf::io::StringOutputStream stream(&out);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  if (!m.SerializeToCodedStream(&coded)) throw Error("the model cannot be serialised");
  coded.Trim();
  return out;
}

}  // namespace ndtrain
