// ONNX's own test format: DIR/model.onnx and DIR/test_data_set_N/{input,output}_M.pb.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "framework/graph/model.h"
#include "framework/onnx/import.h"
#include "framework/runtime/backend.h"

namespace ndtrain {

// The directories in `root` that hold a model.onnx, sorted; none when `root` is not there.
std::vector<std::string> case_directories(const std::string& root);

// Computes the outputs of a bound graph from the inputs that bind() left.
using RunGraph =
    std::function<std::vector<Tensor>(const Graph& graph, std::span<const Tensor> inputs)>;

// Runs `model` on the case's data and compares as ONNX's own runner does: rtol 1e-3 (of 16-bit
// floats two of their last places), atol 1e-7, other types exactly. "" or what differs. Throws
// Error when the model cannot be bound or run.
std::string run_case(const std::string& directory, const Model& model, const RunGraph& run);
std::string run_on_interpreter(const std::string& directory, const Model& model);

// The same on a device, for the graph as it is and as it is optimised.
std::string run_on_device(const std::string& directory, const Model& model, const Device& device);

// The cases of ../shared by their directories there. Listed, so that those that are not there are
// counted as skipped.
std::span<const char* const> listed_cases();
std::string directory_of(const char* listed);
Model import_case(const std::string& directory);

// A test of each of them: TEST_P(NodeCase…, …) with INSTANTIATE_TEST_SUITE_P(…, each_listed_case(),
// case_name). Says where a case is absent.
class NodeCaseTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override;
  static std::string directory() { return directory_of(GetParam()); }
};
inline auto each_listed_case() { return ::testing::ValuesIn(listed_cases()); }
std::string case_name(const ::testing::TestParamInfo<const char*>& info);

// "" or the first place where `got` differs from `want`.
std::string difference(const Tensor& got, const Tensor& want);

}  // namespace ndtrain
