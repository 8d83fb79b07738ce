#include "cli/save_inputs.h"

#include <fmt/format.h>

#include "framework/core/limits.h"
#include "framework/onnx/tensor_file.h"
#include "ndp/engine/engine.h"

namespace ndtrain::cli {
using namespace ndp;

void save_inputs(Fs& fs, const PhotoSet& set, const Preprocess& preprocess,
                 const std::string& directory) {
  const int64_t side = preprocess.img_size;
  const Shape shape =
      preprocess.layout == Layout::kNhwc ? Shape{side, side, 3} : Shape{3, side, side};
  fs.make_directories(directory).or_throw();
  for (size_t i = 0; i < set.photos.size(); ++i) {
    const std::string& path = set.photos[i].path;
    const auto file = fs.read(join(set.root, path), limits::kPhotoFile);
    if (!file.ok()) continue;
    Tensor input({DType::kF32, shape});
    PhotoCost cost;
    const Status made =
        preprocess_photo(path, *file, preprocess, input.mutable_as<float>().data(), cost);
    if (!made.ok()) continue;
    write_tensor_file(fs, join(directory, fmt::format("input_{}.pb", i)), {path, input}).or_throw();
  }
}

}  // namespace ndtrain::cli
