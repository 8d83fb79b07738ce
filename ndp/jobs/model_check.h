// Models that came from elsewhere, tried before this process imports them, and deltas, applied
// where they can do it no harm.
#pragma once

#include <string>
#include <string_view>

#include "framework/core/fs.h"
#include "framework/core/hash.h"
#include "framework/core/status.h"
#include "ndp/jobs/model_file.h"

namespace ndtrain::ndp {

class ModelCheck {
 public:
  virtual ~ModelCheck() = default;

  // Whether try_model() of this file ends well, and within bounds; `digest` is its SHA-256. Any
  // thread; it may take minutes. kCorrupt, kTooLarge, kUnsupported: it does not, and why; kIo: it
  // could not be tried.
  virtual Status check(const Digest& digest, std::string_view file) = 0;
  // apply_delta(), here or where it harms nobody. Any thread. kIo: it could not be tried.
  virtual Result<std::string> apply(std::string_view base, std::string_view delta);
};

// What a role does with a model file before it runs it: imports it, and folds its constants. Throws
// Error.
void try_model(std::string file);

// The model of a file's bytes, once `check` has let these through; null: imported as they are.
// `path` is what the file is called. Throws Error, which names it.
ModelFile checked_model(std::string file, const Digest& digest, const std::string& path,
                        ModelCheck* check);

// As load_model(), of an ONNX file. What is imported are the bytes that were checked, whatever
// becomes of the file.
ModelFile load_checked_model(Fs& fs, const std::string& path, ModelCheck* check);

}  // namespace ndtrain::ndp
