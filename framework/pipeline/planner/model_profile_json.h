// A model's profile as a file:
//   {"format": 1, "model": "alexnet.onnx", "source": "measured here", "batch": 64,
//    "optimizer_s_per_byte": 2e-10, "moment_bytes_per_byte": 2, "peak_bytes": 3e9,
//    "nodes": [{"id": "input", "description": "Input0", "copy": {"mean_s": …, "median_s": …,
//               "deviation_s": …}, "load": {…}, "activation_bytes": 38535168},
//              {"id": "/conv1/Conv", "description": "Conv", "inputs": ["input"], "forward": {…},
//               "input_gradient": {…}, "weight_gradient": {…}, "activation_bytes": …,
//               "saved_bytes": …, "workspace_bytes": …, "parameter_bytes": …, "frozen_bytes": …},
//              …]}
// A node reads those that stand in front of it. No number is left out; "stage" may be there.
#pragma once

#include <string>
#include <string_view>

#include "framework/core/fs.h"
#include "framework/pipeline/planner/model_profile.h"

namespace ndtrain {

// Throws Error naming the file and the entry: not JSON, longer than limits::kProfileFile, an
// unknown or missing entry, a value of another type, an input that is no node in front, what
// validate() refuses.
ModelProfile parse_model_profile(std::string_view json, const std::string& file);

// Of profile.json or graph.txt (graph_text.h), whichever the text begins as.
ModelProfile load_model_profile(Fs& fs, const std::string& file);

// Throws Error where validate() does. Read again, it gives the same profile, with its nodes in the
// order in which they are executed.
std::string to_json(const ModelProfile& profile);

}  // namespace ndtrain
