// ONNX's own test format: DIR/model.onnx and DIR/test_data_set_N/{input,output}_M.pb.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/graph/model.h"
#include "framework/onnx/import.h"

namespace ndtrain {

// The directories in `root` that hold a model.onnx, sorted; none when `root` is not there.
std::vector<std::string> case_directories(const std::string& root);

// Computes the outputs of a bound graph from the inputs that bind() left.
using RunGraph =
    std::function<std::vector<Tensor>(const Graph& graph, std::span<const Tensor> inputs)>;

// Runs `model` on the case's data and compares as ONNX's own runner does: rtol 1e-3, atol 1e-7,
// other types exactly. "" or what differs. Throws Error when the model cannot be bound or run.
std::string run_case(const std::string& directory, const Model& model, const RunGraph& run);
std::string run_on_interpreter(const std::string& directory, const Model& model);

// "" or the first place where `got` differs from `want`.
std::string difference(const Tensor& got, const Tensor& want);

}  // namespace ndtrain
