// Where the sources are, and what may lie beside them: known to one file, so that a compiler cache
// knows the others again in another clone.
#pragma once

#include <string>

namespace ndtrain::support {

// `below`: "" or "/tests/train/golden".
std::string source_path(const std::string& below = "");
std::string shared_path(const std::string& below = "");

}  // namespace ndtrain::support
