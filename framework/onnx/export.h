#pragma once

#include <string>

#include "framework/core/fs.h"
#include "framework/graph/model.h"

namespace ndtrain {

// `model` as an ONNX file: opset 17, IR 8, the batch as a dimension named "N", metadata as
// metadata_props. The same model gives the same bytes, and importing them gives the same
// content_id. Throws Error naming every node that ONNX cannot express (gradients, fused nodes:
// export before passes), and when the file would pass protobuf's 2 GiB.
std::string export_model(const Model& model);

// To a file, through publish(). Throws Error as above.
Status export_model(Fs& fs, const std::string& path, const Model& model);

}  // namespace ndtrain
