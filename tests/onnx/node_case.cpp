#include "tests/onnx/node_case.h"

#include <cmath>
#include <sstream>

#include "framework/core/fs.h"
#include "framework/onnx/test_data.h"
#include "framework/passes/passes.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/interpreter.h"
#include "tests/support/paths.h"

namespace ndtrain {
namespace {

constexpr const char* kListed[] = {
#include "tests/onnx/node_cases.inc"
};

constexpr double kRelative = 1e-3, kAbsolute = 1e-7;

// 1e-3, or two of the last places of 16-bit floats.
double relative_of(DType t) {
  if (t == DType::kBF16) return 1.0 / 64;
  return t == DType::kF16 ? 1.0 / 512 : kRelative;
}

bool near(double got, double want, double relative) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <= kAbsolute + relative * std::abs(want);
}

std::vector<Tensor> outputs_on(const Device& device, const Graph& g,
                               std::span<const Tensor> inputs) {
  const Plan plan(g, device);
  return Executor(plan).run(inputs);
}

}  // namespace

std::span<const char* const> listed_cases() { return kListed; }

std::string directory_of(const char* listed) { return join(support::shared_path(), listed); }

void NodeCaseTest::SetUp() {
  if (!real_fs().exists(directory())) GTEST_SKIP() << directory() << " is absent";
}

std::string case_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name(name_of_path(info.param));
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

Model import_case(const std::string& directory) {
  return import_model(real_fs(), join(directory, "model.onnx"), {.external_data = true});
}

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
    if (is_float(want.type().dtype) ? near(a[i], b[i], relative_of(want.type().dtype))
                                    : a[i] == b[i])
      continue;
    os << "element " << i << " of " << want.type() << " is " << a[i] << ", should be " << b[i];
    return os.str();
  }
  return "";
}

std::string run_case(const std::string& directory, const Model& model, const RunGraph& run) {
  for (int set = 0;; ++set) {
    const std::string path = join(directory, "test_data_set_" + std::to_string(set));
    if (!real_fs().exists(path)) return set == 0 ? "has no data" : "";
    const TestData data = read_test_data(real_fs(), path, model).or_throw();
    const Graph graph = ndtrain::bind(model, data.batch, data.known);
    const std::vector<Tensor> got = run(graph, data.inputs);
    for (size_t k = 0; k < data.outputs.size(); ++k) {
      const Tensor want = as_wanted(data.outputs[k], got.at(k).type().dtype);
      const std::string d = difference(got[k], want);
      if (!d.empty()) return "output " + std::to_string(k) + " " + d;
    }
  }
}

std::string run_on_interpreter(const std::string& directory, const Model& model) {
  return run_case(directory, model, interpret_outputs);
}

std::string run_on_device(const std::string& directory, const Model& model, const Device& device) {
  std::string d = run_case(directory, model, [&](const Graph& g, std::span<const Tensor> inputs) {
    return outputs_on(device, g, inputs);
  });
  if (!d.empty()) return d;
  d = run_case(directory, model, [&](const Graph& g, std::span<const Tensor> inputs) {
    return outputs_on(device, optimize_for_inference(g), inputs);
  });
  return d.empty() ? d : "optimised: " + d;
}

}  // namespace ndtrain
