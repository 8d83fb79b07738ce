#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/fs.h"
#include "framework/graph/model.h"

namespace ndtrain {

struct ImportOptions {
  // Whether weights may be read from any file beneath the model's directory; those in files that
  // are called after the model's, FILE.data, are read anyway (external_data.h).
  bool external_data = false;
  // Extents of symbolic dimensions, by their name or as "input[axis]". The first dimension of an
  // input stays the batch unless it is named here; any other must be, but for what image_side says.
  // A name that no input has is refused.
  std::map<std::string, int64_t> dims = {};
  // Inputs that are constants: one number for all elements or one for each, in the type and shape
  // that the file declares. A name that no input has is refused.
  std::map<std::string, std::vector<double>> inputs = {};
  // Given the file's metadata, the height and width of the images that a model takes: of its only
  // input where that is N x 3 x H x W or N x H x W x 3, if they are symbolic. Null: they must be
  // named.
  std::function<int64_t(const std::map<std::string, std::string>& metadata)> image_side = {};
};

// An ONNX model (IR 3 to 14, opset 1 to 28) as a Model: functions inlined, nodes in order, every op
// in its one form with all attributes, unused weights dropped, small integer constants that are
// equal shared. Throws Error naming every node, weight and input that cannot be taken, and why.
Model import_model(Fs& fs, const std::string& path, const ImportOptions& options = {});

// The bytes of the file, or of one that has the weights in it which are in files called after it.
// The status of reading it; kCorrupt, kTooLarge where these cannot be had, or are too many for one
// file.
Result<std::string> read_as_one_file(Fs& fs, const std::string& path);

// From memory, freed as soon as it is parsed. External data is looked for beneath `directory`.
Model import_model(std::string bytes, const ImportOptions& options = {},
                   const std::string& directory = "");

}  // namespace ndtrain
