#include "framework/onnx/import.h"

#include <algorithm>
#include <set>

#include "framework/core/limits.h"
#include "framework/graph/share_constants.h"
#include "framework/onnx/adapt.h"
#include "framework/onnx/functions.h"
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

// The extents of a model's inputs, symbolic ones by what is known of them.
class Extents {
 public:
  Extents(const OnnxModel& m, const ImportOptions& options, Problems& problems)
      : m_(m), options_(options), problems_(problems) {}

  std::vector<int64_t> of(const OnnxValue& v) {
    std::vector<int64_t> dims;
    for (size_t axis = 0; axis < v.dims.size(); ++axis) dims.push_back(named(v, axis));
    const std::set<size_t> image = image_axes(v, dims);
    for (size_t axis = 1; axis < dims.size(); ++axis) {
      if (dims[axis] >= 0) continue;
      if (options_.image_side && image.contains(axis)) {
        dims[axis] = options_.image_side(m_.metadata);
        continue;
      }
      const std::string key = v.names[axis].empty() ? place(v, axis) : v.names[axis];
      problems_.add("input '", v.name, "': dimension ", axis, " is symbolic ('", v.names[axis],
                    "'); only the first may be: give its extent as ", place(v, axis),
                    ", with ndtrain model import --dim ", key, "=N");
    }
    return dims;
  }

  void refuse_unused() {
    for (const auto& [key, extent] : options_.dims) {
      if (used_.contains(key)) continue;
      std::string known;
      for (const std::string& name : symbols_) known += (known.empty() ? "" : ", ") + name;
      problems_.add("no input has a symbolic dimension '", key, "'",
                    known.empty() ? "; all are numbers" : "; there are " + known);
    }
  }

 private:
  static std::string place(const OnnxValue& v, size_t axis) {
    return v.name + "[" + std::to_string(axis) + "]";
  }

  // kBatch where it is symbolic and not named.
  int64_t named(const OnnxValue& v, size_t axis) {
    if (v.dims[axis] >= 0) return v.dims[axis];
    symbols_.insert(v.names[axis].empty() ? place(v, axis) : v.names[axis]);
    for (const std::string& key : {v.names[axis], place(v, axis)}) {
      const auto it = options_.dims.find(key);
      if (it == options_.dims.end() || key.empty()) continue;
      used_.insert(key);
      if (it->second < 0) problems_.add("dimension ", key, " cannot be ", it->second);
      return it->second;
    }
    return kBatch;
  }

  // Height and width of the images that the model takes, if it takes images alone.
  std::set<size_t> image_axes(const OnnxValue& v, const std::vector<int64_t>& dims) const {
    const auto fed = [&](const OnnxValue& in) { return !m_.initialisers.contains(in.name); };
    if (std::ranges::count_if(m_.inputs, fed) != 1 || dims.size() != 4) return {};
    if (v.dtype == DType::kNone) return {};
    if (dims[1] == 3) return {2, 3};
    return dims[3] == 3 ? std::set<size_t>{1, 2} : std::set<size_t>{};
  }

  const OnnxModel& m_;
  const ImportOptions& options_;
  Problems& problems_;
  std::set<std::string> symbols_, used_;
};

void add_inputs(const OnnxModel& m, const ImportOptions& options, Model& to, Problems& problems) {
  Extents extents(m, options, problems);
  for (const OnnxValue& v : m.inputs) {
    if (m.initialisers.contains(v.name)) continue;  // a default, which we make final
    if (v.dtype == DType::kNone) {
      problems.add("input '", v.name, "' is ", v.kind, ", which is not supported");
      continue;
    }
    if (!v.has_shape) {
      problems.add("input '", v.name, "' has no shape");
      continue;
    }
    ModelInput in{v.name, v.dtype, extents.of(v)};
    std::vector<int64_t> least;
    for (const int64_t d : in.dims) least.push_back(std::max<int64_t>(d, 0));
    try {
      Shape checked(least);
    } catch (const Error& e) {
      problems.add("input '", v.name, "': ", e.what());
    }
    to.inputs.push_back(std::move(in));
  }
  extents.refuse_unused();
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
  inline_functions(parsed, problems);
  order_nodes(parsed, problems);
  Model to;
  add_inputs(parsed, options, to, problems);
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

}  // namespace

Model import_model(std::string bytes, const ImportOptions& options, const std::string& directory) {
  std::optional<ExternalData> external;
  if (options.external_data) external.emplace(directory);
  return import_parsed(parse_onnx(std::move(bytes), external ? &*external : nullptr), options,
                       "cannot import the model");
}

Model import_model(Fs& fs, const std::string& path, const ImportOptions& options) try {
  Result<FileInfo> info = fs.info(path);
  info.status().or_throw();
  if (info->size > limits::kModelFile) {
    throw Error("the file has ", info->size, " bytes, more than the ", limits::kModelFile,
                " that protobuf allows; store its weights as external data");
  }
  return import_model(fs.read(path, limits::kModelFile).or_throw(), options, parent_of(path));
} catch (const Error& e) {
  throw Error(path, ": ", e.what());
}

}  // namespace ndtrain
