#include "tests/onnx/node_case.h"

#include <cmath>
#include <sstream>

#include "framework/core/fs.h"
#include "framework/onnx/tensor_file.h"
#include "framework/runtime/interpreter.h"

namespace ndtrain {
namespace {

constexpr double kRelative = 1e-3, kAbsolute = 1e-7;

std::vector<Tensor> read_all(const std::string& directory, const std::string& stem) {
  std::vector<Tensor> all;
  for (int i = 0;; ++i) {
    const std::string path = join(directory, stem + "_" + std::to_string(i) + ".pb");
    if (!real_fs().exists(path)) return all;
    all.push_back(read_tensor_file(real_fs(), path).or_throw().tensor);
  }
}

int64_t batch_of(const Model& model, const std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < model.inputs.size() && i < inputs.size(); ++i) {
    const std::vector<int64_t>& dims = model.inputs[i].dims;
    if (!dims.empty() && dims[0] == kBatch) return inputs[i].shape()[0];
  }
  return 1;
}

bool near(double got, double want) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <= kAbsolute + kRelative * std::abs(want);
}

}  // namespace

std::vector<std::string> case_directories(const std::string& root) {
  std::vector<std::string> found;
  const Result<std::vector<std::string>> names = real_fs().list(root);
  if (!names.ok()) return found;
  for (const std::string& name : *names) {
    const std::string directory = join(root, name);
    if (real_fs().exists(join(directory, "model.onnx"))) found.push_back(directory);
  }
  return found;
}

std::string difference(const Tensor& got, const Tensor& want) {
  std::ostringstream os;
  if (got.type() != want.type()) {
    os << "is " << got.type() << ", should be " << want.type();
    return os.str();
  }
  if (!is_float(want.type().dtype) && got.same_bytes(want)) return "";
  const std::vector<double> a = got.to_doubles(), b = want.to_doubles();
  for (size_t i = 0; i < b.size(); ++i) {
    if (is_float(want.type().dtype) ? near(a[i], b[i]) : a[i] == b[i]) continue;
    os << "element " << i << " of " << want.type() << " is " << a[i] << ", should be " << b[i];
    return os.str();
  }
  return "";
}

std::string run_case(const std::string& directory, const Model& model, const RunGraph& run) {
  for (int set = 0;; ++set) {
    const std::string data = join(directory, "test_data_set_" + std::to_string(set));
    if (!real_fs().exists(data)) return set == 0 ? "has no data" : "";
    const std::vector<Tensor> inputs = read_all(data, "input"), want = read_all(data, "output");
    if (inputs.size() != model.inputs.size()) return "other inputs than the model's";
    std::map<std::string, Tensor> known;
    std::vector<Tensor> given;
    const std::vector<std::string> shapes = shape_inputs(model);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string& name = model.inputs[i].name;
      if (std::find(shapes.begin(), shapes.end(), name) != shapes.end()) {
        known[name] = inputs[i];
      } else {
        given.push_back(inputs[i]);
      }
    }
    const std::vector<Tensor> got =
        run(ndtrain::bind(model, batch_of(model, inputs), known), given);
    if (got.size() != want.size()) return "other outputs than the data's";
    for (size_t k = 0; k < want.size(); ++k) {
      const std::string d = difference(got[k], want[k]);
      if (!d.empty()) return "output " + std::to_string(k) + " " + d;
    }
  }
}

std::string run_on_interpreter(const std::string& directory, const Model& model) {
  return run_case(directory, model, interpret_outputs);
}

}  // namespace ndtrain
