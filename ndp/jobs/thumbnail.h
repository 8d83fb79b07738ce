#pragma once

#include <string>

#include "framework/core/fs.h"

namespace ndtrain {

// A photo as a small square JPEG in a data: URI; "" when it cannot be read.
std::string thumbnail_uri(Fs& fs, const std::string& path);

}  // namespace ndtrain
