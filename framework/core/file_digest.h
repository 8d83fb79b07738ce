#pragma once

#include <string>

#include "framework/core/fs.h"
#include "framework/core/hash.h"

namespace ndtrain {

// SHA-256 of a file's bytes, which are read a part at a time.
Result<Digest> sha256_of_file(Fs& fs, const std::string& path);

}  // namespace ndtrain
