// Where the sources are, what may lie beside them, and what is built of them: known to one file, so
// that a compiler cache knows the others again in another clone and another build.
#pragma once

#include <string>

namespace ndtrain::support {

// `below`: "" or "/tests/train/golden".
std::string source_path(const std::string& below = "");
std::string shared_path(const std::string& below = "");
// `below`: "/bin/mpi_ranks".
std::string build_path(const std::string& below);
std::string program_path();  // ndtrain

}  // namespace ndtrain::support
