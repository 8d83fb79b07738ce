#pragma once

#include <string>

#include "ndp/photos/image.h"

namespace ndtrain::ndp {

// A baseline JPEG, quality 1 … 100. Throws Error for an empty image. Thread-safe.
std::string encode_jpeg(const Image& image, int quality = 90);

}  // namespace ndtrain::ndp
