// A model as the commands take it: a run directory or an ONNX file, with what its metadata says.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/graph/model.h"
#include "framework/onnx/export.h"
#include "framework/onnx/import.h"
#include "framework/onnx/metadata.h"
#include "ndp/photos/preprocess.h"

namespace ndtrain::ndp {

struct ModelFile {
  std::string path;  // of the ONNX file
  Model model;
  Preprocess preprocess;
  bool preprocess_declared =
      false;  // false: assumed from the input's shape and ImageNet's defaults
  bool side_from_preprocess = false;  // the input's height and width are symbolic in the file
  std::vector<std::string> classes;   // empty when the file does not say

  Digest id() const;        // the version: weights, structure, preprocessing, classes
  int64_t outputs() const;  // classes by the shape of the output
  std::string class_name(int64_t i) const;  // its number when there are no names
};

// `path` is a run directory (its model.onnx) or an ONNX file. A symbolic height and width are what
// the preprocessing says, declared or assumed, unless `options` says. Throws Error.
ModelFile load_model(Fs& fs, const std::string& path, ImportOptions options = {});

// Writes classes, preprocessing and whatever else `model.metadata` holds.
void save_model(Fs& fs, const std::string& path, const ModelFile& file,
                const ExportOptions& options = {});

// SHA-256 over the extractor as imported, its weights, the preprocessing, the precision of its
// outputs and the one it declares to compute in: keys every feature.
Digest extractor_id(const Model& extractor, const Preprocess& preprocess);

// "assuming …" for people, or what was declared.
std::string preprocess_note(const ModelFile& file);

}  // namespace ndtrain::ndp
