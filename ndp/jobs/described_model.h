#pragma once

#include <functional>
#include <string>

#include "framework/onnx/import.h"
#include "ndp/jobs/model_file.h"

namespace ndtrain::ndp {

// The model that `import` makes of a file called `path`, with what its metadata says. What `import`
// is given are `options`, with a side for images where they have none (load_model()). Throws what
// that throws.
ModelFile described_model(const std::string& path, ImportOptions options,
                          const std::function<Model(const ImportOptions&)>& import);

}  // namespace ndtrain::ndp
