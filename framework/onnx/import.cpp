#include "framework/onnx/import.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "framework/core/limits.h"
#include "framework/graph/share_constants.h"
#include "framework/onnx/adapt.h"
#include "framework/onnx/functions.h"
#include "framework/onnx/inputs.h"
#include "framework/onnx/normalise.h"
#include "framework/onnx/onnx_model.h"
#include "framework/onnx/order.h"
#include "framework/onnx/problems.h"

namespace ndtrain {
namespace {

void check_header(const OnnxModel& m, Problems& problems) {
  if (m.ir < kMinIr || m.ir > kMaxIr) {
    problems.add("IR version ", m.ir, " is not supported, only ", kMinIr, " to ", kMaxIr);
  }
  const auto opset = m.opsets.find("");
  if (opset == m.opsets.end()) {
    problems.add("no opset is imported for ONNX's own operators (truncated?)");
  } else if (opset->second < kMinOpset || opset->second > kMaxOpset) {
    problems.add("opset ", opset->second, " is not supported, only ", kMinOpset, " to ", kMaxOpset,
                 "; convert the model with ONNX's version converter");
  }
}

// Exporters write an integer constant as a node or as an initialiser; here it is always the latter.
void lift_integer_constants(Model& m, const std::set<std::string>& outputs) {
  std::erase_if(m.nodes, [&](ModelNode& n) {
    if (n.op != "Constant" || n.outputs.size() != 1 || outputs.contains(n.outputs[0])) return false;
    Tensor value;
    if (n.attrs.has("value")) {
      value = n.attrs.tensor("value");
    } else if (n.attrs.has("value_ints")) {
      value = Tensor::i64(n.attrs.ints("value_ints"));
    } else if (n.attrs.has("value_int")) {
      value = Tensor::of<int64_t>(DType::kI64, Shape{}, {n.attrs.i("value_int")});
    }
    if (!value.defined() || is_float(value.type().dtype)) return false;
    m.initialisers.emplace(n.outputs[0], value);
    return true;
  });
}

Model import_parsed(OnnxModel parsed, const ImportOptions& options, const std::string& who) {
  Problems problems;
  check_header(parsed, problems);
  Model to;
  add_inputs(parsed, options, to, problems);
  inline_functions(parsed, problems);
  order_nodes(parsed, problems);
  to.initialisers = parsed.initialisers;
  to.metadata = parsed.metadata;
  for (const OnnxValue& v : parsed.outputs) to.outputs.push_back(v.name);
  adapt_nodes(parsed, to, problems);
  problems.throw_if_any(who);
  const std::set<std::string> outputs(to.outputs.begin(), to.outputs.end());
  lift_integer_constants(to, outputs);
  normalise(to);
  share_constants(to);
  return to;
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace

Model import_model(std::string bytes, const ImportOptions& options, const std::string& directory) {
  const ExternalData external(directory);
  return import_parsed(parse_onnx(std::move(bytes), options.external_data ? &external : nullptr),
                       options, "cannot import the model");
}

Model import_model(Fs& fs, const std::string& path, const ImportOptions& options) try {
  Result<FileInfo> info = fs.info(path);
  info.status().or_throw();
  if (info->size > limits::kModelFile) {
    throw Error("the file has ", info->size, " bytes, more than the ", limits::kModelFile,
                " that protobuf allows; store its weights as external data");
  }
  const ExternalData external(parent_of(path), options.external_data ? "" : file_name(path));
  return import_parsed(parse_onnx(fs.read(path, limits::kModelFile).or_throw(), &external), options,
                       "cannot import the model");
} catch (const Error& e) {
  throw Error(path, ": ", e.what());
}

Result<std::string> read_as_one_file(Fs& fs, const std::string& path) {
  Result<std::string> bytes = fs.read(path, limits::kModelFile);
  if (!bytes.ok()) return bytes;
  Result<std::string> whole =
      with_weights_inside(std::move(*bytes), ExternalData(parent_of(path), file_name(path)));
  if (!whole.ok()) return Status(whole.status().code(), path + ": " + whole.status().message());
  return whole;
}

}  // namespace ndtrain
