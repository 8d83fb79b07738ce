#pragma once

#include <string>
#include <string_view>

#include "framework/core/fs.h"

namespace ndtrain::ndp {

// A photo as a small square JPEG. A Status as decode() has it.
Result<std::string> thumbnail(std::string_view file);
// The same of a file in a data: URI; "" when it cannot be read.
std::string thumbnail_uri(Fs& fs, const std::string& path);

}  // namespace ndtrain::ndp
