#include "tests/support/paths.h"

namespace ndtrain::support {

std::string source_path(const std::string& below) { return NDT_SOURCE_DIR + below; }
std::string shared_path(const std::string& below) { return NDT_SHARED_DIR + below; }
std::string build_path(const std::string& below) { return NDT_BUILD_DIR + below; }
std::string program_path() { return build_path("/bin/ndtrain"); }

}  // namespace ndtrain::support
