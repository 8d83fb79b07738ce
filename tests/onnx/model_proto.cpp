#include "tests/onnx/model_proto.h"

#include "framework/runtime/interpreter.h"

namespace ndtrain {
namespace {

template <typename To>
onnx::NodeProto& append_node(To& to, const std::string& op, const Names& inputs,
                             const Names& outputs) {
  onnx::NodeProto& n = *to.add_node();
  n.set_op_type(op);
  for (const std::string& name : inputs) n.add_input(name);
  for (const std::string& name : outputs) n.add_output(name);
  return n;
}

onnx::AttributeProto& attribute(onnx::NodeProto& n, const std::string& name,
                                onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto& a = *n.add_attribute();
  a.set_name(name);
  a.set_type(type);
  return a;
}

}  // namespace

onnx::ModelProto empty_model(int64_t opset, int64_t ir) {
  onnx::ModelProto m;
  m.set_ir_version(ir);
  m.add_opset_import()->set_version(opset);
  m.mutable_graph()->set_name("test");
  return m;
}

onnx::NodeProto& add_node(onnx::ModelProto& m, const std::string& op, const Names& inputs,
                          const Names& outputs) {
  return append_node(*m.mutable_graph(), op, inputs, outputs);
}

onnx::NodeProto& add_node(onnx::FunctionProto& f, const std::string& op, const Names& inputs,
                          const Names& outputs) {
  return append_node(f, op, inputs, outputs);
}

void set_ints(onnx::NodeProto& n, const std::string& name, const std::vector<int64_t>& values) {
  onnx::AttributeProto& a = attribute(n, name, onnx::AttributeProto::INTS);
  for (int64_t v : values) a.add_ints(v);
}

void set_int(onnx::NodeProto& n, const std::string& name, int64_t value) {
  attribute(n, name, onnx::AttributeProto::INT).set_i(value);
}

void set_float(onnx::NodeProto& n, const std::string& name, float value) {
  attribute(n, name, onnx::AttributeProto::FLOAT).set_f(value);
}

void set_string(onnx::NodeProto& n, const std::string& name, const std::string& value) {
  attribute(n, name, onnx::AttributeProto::STRING).set_s(value);
}

void set_reference(onnx::NodeProto& n, const std::string& name, const std::string& from) {
  attribute(n, name, onnx::AttributeProto::FLOAT).set_ref_attr_name(from);
}

void add_input(onnx::ModelProto& m, const std::string& name, const std::vector<int64_t>& dims,
               int type) {
  onnx::ValueInfoProto& v = *m.mutable_graph()->add_input();
  v.set_name(name);
  auto& t = *v.mutable_type()->mutable_tensor_type();
  t.set_elem_type(type);
  t.mutable_shape();
  for (int64_t d : dims) {
    auto& dim = *t.mutable_shape()->add_dim();
    if (d < 0) {
      dim.set_dim_param("N");
    } else {
      dim.set_dim_value(d);
    }
  }
}

void add_output(onnx::ModelProto& m, const std::string& name) {
  m.mutable_graph()->add_output()->set_name(name);
}

onnx::TensorProto& add_floats(onnx::ModelProto& m, const std::string& name,
                              const std::vector<int64_t>& dims, const std::vector<float>& values) {
  onnx::TensorProto& t = *m.mutable_graph()->add_initializer();
  t.set_name(name);
  t.set_data_type(onnx::TensorProto::FLOAT);
  for (int64_t d : dims) t.add_dims(d);
  for (float v : values) t.add_float_data(v);
  return t;
}

onnx::TensorProto& add_ints(onnx::ModelProto& m, const std::string& name,
                            const std::vector<int64_t>& dims, const std::vector<int64_t>& values) {
  onnx::TensorProto& t = *m.mutable_graph()->add_initializer();
  t.set_name(name);
  t.set_data_type(onnx::TensorProto::INT64);
  for (int64_t d : dims) t.add_dims(d);
  for (int64_t v : values) t.add_int64_data(v);
  return t;
}

onnx::ModelProto one_node(const std::string& op, int64_t opset) {
  onnx::ModelProto m = empty_model(opset);
  add_input(m, "x", {2, 3});
  add_output(m, "y");
  add_node(m, op, {"x"}, {"y"});
  return m;
}

onnx::FunctionProto& add_function(onnx::ModelProto& m, const std::string& name, const Names& inputs,
                                  const Names& outputs) {
  onnx::FunctionProto& f = *m.add_functions();
  f.set_domain("local");
  f.set_name(name);
  for (const std::string& s : inputs) f.add_input(s);
  for (const std::string& s : outputs) f.add_output(s);
  f.add_opset_import()->set_version(17);
  return f;
}

Model import_proto(const onnx::ModelProto& m, const ImportOptions& options) {
  return import_model(m.SerializeAsString(), options);
}

std::string refusal(const onnx::ModelProto& m, const ImportOptions& options) {
  try {
    import_proto(m, options);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

std::vector<Tensor> run_model(const Model& model, const std::vector<Tensor>& inputs) {
  const int64_t batch = inputs.empty() || inputs[0].shape().rank() == 0 ? 1 : inputs[0].shape()[0];
  return interpret_outputs(bind(model, batch), inputs);
}

std::vector<double> run_floats(const onnx::ModelProto& m, const std::vector<Tensor>& inputs) {
  return run_model(import_proto(m), inputs).at(0).to_doubles();
}

Tensor floats(const Shape& shape, const std::vector<float>& values) {
  return Tensor::of<float>(DType::kF32, shape, values);
}

}  // namespace ndtrain
