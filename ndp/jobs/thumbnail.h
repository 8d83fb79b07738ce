#pragma once

#include <functional>
#include <string>

#include "framework/core/fs.h"
#include "ndp/photos/preprocess.h"

namespace ndtrain::ndp {

// A photo as a small square JPEG, whose pixels `decode` gives: see PhotoDecoder. A Status as that
// has it.
using DecodeThumbnail = std::function<Result<Image>(const DecodeOptions&, const Preprocess& crop)>;
Result<std::string> thumbnail(const DecodeThumbnail& decode);
// The same of a file in a data: URI, decoded in this process; "" when it cannot be read.
std::string thumbnail_uri(Fs& fs, const std::string& path);

}  // namespace ndtrain::ndp
