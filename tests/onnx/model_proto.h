// ONNX files for tests, good and bad, built field by field.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

#include "framework/onnx/import.h"

namespace ndtrain {

using Names = std::vector<std::string>;

// No nodes, no values; the default domain at `opset`.
onnx::ModelProto empty_model(int64_t opset = 17, int64_t ir = 8);

onnx::NodeProto& add_node(onnx::ModelProto& m, const std::string& op, const Names& inputs,
                          const Names& outputs);
onnx::NodeProto& add_node(onnx::FunctionProto& f, const std::string& op, const Names& inputs,
                          const Names& outputs);
void set_ints(onnx::NodeProto& n, const std::string& name, const std::vector<int64_t>& values);
void set_int(onnx::NodeProto& n, const std::string& name, int64_t value);
void set_float(onnx::NodeProto& n, const std::string& name, float value);
void set_string(onnx::NodeProto& n, const std::string& name, const std::string& value);
void set_reference(onnx::NodeProto& n, const std::string& name, const std::string& from);

// A negative dim is symbolic, named "N".
void add_input(onnx::ModelProto& m, const std::string& name, const std::vector<int64_t>& dims,
               int type = onnx::TensorProto::FLOAT);
void add_output(onnx::ModelProto& m, const std::string& name);
onnx::TensorProto& add_floats(onnx::ModelProto& m, const std::string& name,
                              const std::vector<int64_t>& dims, const std::vector<float>& values);
onnx::TensorProto& add_ints(onnx::ModelProto& m, const std::string& name,
                            const std::vector<int64_t>& dims, const std::vector<int64_t>& values);

// x f32[2,3] through one node to y.
onnx::ModelProto one_node(const std::string& op, int64_t opset = 17);

onnx::FunctionProto& add_function(onnx::ModelProto& m, const std::string& name, const Names& inputs,
                                  const Names& outputs);

Model import_proto(const onnx::ModelProto& m, const ImportOptions& options = {});
// What import says of it; "" if it takes it.
std::string refusal(const onnx::ModelProto& m, const ImportOptions& options = {});

// On the interpreter, at the batch of the first input.
std::vector<Tensor> run_model(const Model& model, const std::vector<Tensor>& inputs);
std::vector<double> run_floats(const onnx::ModelProto& m, const std::vector<Tensor>& inputs);
Tensor floats(const Shape& shape, const std::vector<float>& values);

}  // namespace ndtrain
