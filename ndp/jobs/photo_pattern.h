#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/core/fs.h"

namespace ndtrain::ndp {

bool is_pattern(std::string_view name);

// Files and directories that a pattern stands for, in byte order: *, ? and [a-z] as in a shell,
// within one name; ** for any number of directories. None of them matches a leading dot. A link
// back to a directory above it is not followed.
std::vector<std::string> matching_paths(Fs& fs, const std::string& pattern);

}  // namespace ndtrain::ndp
