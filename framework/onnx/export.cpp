#include "framework/onnx/export.h"

#include <set>

#include "framework/core/publish.h"
#include "framework/onnx/lower.h"
#include "framework/onnx/normalise.h"
#include "framework/onnx/onnx_model.h"
#include "framework/onnx/problems.h"

namespace ndtrain {
namespace {

constexpr const char* kBatchName = "N";

OnnxValue input_value(const ModelInput& in) {
  OnnxValue v;
  v.name = in.name;
  v.dtype = in.dtype;
  v.has_shape = true;
  v.dims = in.dims;
  for (int64_t d : in.dims) v.names.push_back(d == kBatch ? kBatchName : "");
  return v;
}

// What is equal at two batch sizes does not depend on it.
OnnxValue output_value(const std::string& name, const TensorType* two, const TensorType* three) {
  OnnxValue v;
  v.name = name;
  if (two == nullptr || three == nullptr) return v;
  v.dtype = two->dtype;
  v.has_shape = two->shape.rank() == three->shape.rank();
  for (int i = 0; v.has_shape && i < two->shape.rank(); ++i) {
    const bool fixed = two->shape[i] == three->shape[i];
    const bool batch = two->shape[i] == 2 && three->shape[i] == 3;
    v.dims.push_back(fixed ? two->shape[i] : kBatch);
    v.names.push_back(batch ? kBatchName : "");
  }
  return v;
}

// Constants whose values went into attributes.
void drop_unread(OnnxModel& m, const Model& from) {
  std::set<std::string> used(from.outputs.begin(), from.outputs.end());
  for (const OnnxNode& n : m.nodes) used.insert(n.inputs.begin(), n.inputs.end());
  std::erase_if(m.initialisers, [&](const auto& entry) { return !used.contains(entry.first); });
  std::erase_if(m.nodes, [&](const OnnxNode& n) {
    return n.op == "Constant" && !used.contains(n.outputs.at(0));
  });
}

// The IR version that came with an opset from 17 on.
int ir_of_opset(int opset) {
  if (opset <= 18) return 8;
  if (opset <= 20) return 9;
  if (opset <= 22) return 10;
  if (opset <= 24) return opset - 12;
  return opset <= 27 ? 13 : 14;
}

int chosen_opset(const Model& model, ValueTypes& types, const ExportOptions& options) {
  if (!options.opset) return least_opset(model, types);
  if (*options.opset < kLeastExportOpset || *options.opset > kMaxOpset) {
    throw Error("opset ", *options.opset, " cannot be written, only ", kLeastExportOpset, " to ",
                kMaxOpset);
  }
  return *options.opset;
}

}  // namespace

std::string export_model(const Model& given, const ExportOptions& options) {
  Model model = given;
  normalise(model);
  ValueTypes two(model, 2), three(model, 3);
  const int opset = chosen_opset(model, two, options);
  Problems problems;
  OnnxModel m;
  m.ir = ir_of_opset(opset);
  m.producer = "ndtrain";
  m.opsets = {{"", opset}};
  m.initialisers = model.initialisers;
  m.metadata = model.metadata;
  lower_nodes(model, two, opset, m, problems);
  problems.throw_if_any("cannot export the model");
  for (const ModelInput& in : model.inputs) m.inputs.push_back(input_value(in));
  for (const std::string& name : model.outputs) {
    m.outputs.push_back(output_value(name, two.find(name), three.find(name)));
  }
  drop_unread(m, model);
  return serialise_onnx(m);
}

Status export_model(Fs& fs, const std::string& path, const Model& model,
                    const ExportOptions& options) {
  return publish(fs, path, export_model(model, options));
}

}  // namespace ndtrain
