#pragma once

#include <optional>
#include <string>

#include "framework/core/fs.h"
#include "framework/core/limits.h"
#include "framework/graph/model.h"

namespace ndtrain {

struct ExportOptions {
  // 17 to 28. Absent: 17, which every runtime in use reads, or where it cannot say the model the
  // first that can.
  std::optional<int> opset = {};
  // Bytes of weights up to which a model is one file. Of more, tensors of more than 1 KiB go to
  // another beside it, FILE.DIGEST.data, each at a multiple of 4096 bytes.
  int64_t most_in_one_file = limits::kModelFile - (int64_t{64} << 20);
};

// `model` as an ONNX file: the batch as a dimension named "N", metadata as metadata_props, and the
// IR version that came with the opset. The same model gives the same bytes, and importing them
// gives the same content_id. Throws Error naming every node that the opset cannot express, with the
// one that does where there is one (gradients and fused nodes have none: export before passes), and
// when the file would pass protobuf's 2 GiB.
std::string export_model(const Model& model, const ExportOptions& options = {});

// To a file, through publish(), and where the weights are too many for one to two: the second is
// there before the first, and those that were there for an earlier model of the path go. Throws
// Error as above, but for the 2 GiB.
Status export_model(Fs& fs, const std::string& path, const Model& model,
                    const ExportOptions& options = {});

}  // namespace ndtrain
