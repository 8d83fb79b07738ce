#include "framework/onnx/export.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <span>

#include "framework/core/publish.h"
#include "framework/core/running_xxh3.h"
#include "framework/core/text.h"
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

OnnxModel lowered(const Model& given, const ExportOptions& options) {
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
  return m;
}

int64_t bytes_of_weights(const OnnxModel& model) {
  int64_t bytes = 0;
  for (const auto& [name, t] : model.initialisers) bytes += static_cast<int64_t>(t.bytes());
  return bytes;
}

constexpr int64_t kPage = 4096;
constexpr size_t kSmall = 1024;  // shapes and the like, which readers want without the other file

// Calls f(name, bytes, offset) with each tensor that is not small, in order.
template <typename F>
void for_each_large(const OnnxModel& model, F f) {
  int64_t offset = 0;
  for (const auto& [name, t] : model.initialisers) {
    if (t.bytes() <= kSmall) continue;
    f(name, std::span(static_cast<const std::byte*>(t.data()), t.bytes()), offset);
    offset += (static_cast<int64_t>(t.bytes()) + kPage - 1) / kPage * kPage;
  }
}

Status write_weights(Fs& fs, const std::string& path, const OnnxModel& model) {
  Result<Publisher> file = Publisher::start(fs, path);
  if (!file.ok()) return file.status();
  int64_t end = 0;
  Status s;
  for_each_large(model, [&](const std::string&, std::span<const std::byte> bytes, int64_t offset) {
    if (s.ok()) s = file->write(std::string(static_cast<size_t>(offset - end), '\0'));
    if (s.ok()) s = file->write(bytes);
    end = offset + static_cast<int64_t>(bytes.size());
  });
  return s.ok() ? file->commit() : s;
}

// What an earlier model of this path has beside it.
Status remove_earlier(Fs& fs, const std::string& path, const std::string& weights) {
  const std::string directory = parent_of(path),
                    name = std::filesystem::path(path).filename().string();
  const Result<std::vector<std::string>> files = fs.list(directory.empty() ? "." : directory);
  if (!files.ok()) return files.status();
  for (const std::string& file : *files) {
    const bool earlier =
        file != weights && file.size() == weights.size() && is_named_after(file, name);
    if (!earlier) continue;
    if (Status s = fs.remove(join(directory, file)); !s.ok()) return s;
  }
  return {};
}

}  // namespace

std::string export_model(const Model& model, const ExportOptions& options) {
  return serialise_onnx(lowered(model, options));
}

Status export_model(Fs& fs, const std::string& path, const Model& model,
                    const ExportOptions& options) {
  const OnnxModel m = lowered(model, options);
  if (bytes_of_weights(m) <= options.most_in_one_file) return publish(fs, path, serialise_onnx(m));
  RunningXxh3 digest;
  ExternalWeights external;
  for_each_large(m, [&](const std::string& name, std::span<const std::byte> bytes, int64_t offset) {
    digest.update(bytes);
    external.offsets[name] = offset;
  });
  external.location =
      fmt::format("{}.{:016x}.data", std::filesystem::path(path).filename().string(), digest.sum());
  Status s = write_weights(fs, join(parent_of(path), external.location), m);
  if (s.ok()) s = publish(fs, path, serialise_onnx(m, external));
  return s.ok() ? remove_earlier(fs, path, external.location) : s;
}

}  // namespace ndtrain
