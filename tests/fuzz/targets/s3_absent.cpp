#include "tests/fuzz/fuzz_target.h"

namespace ndtrain::fuzz {

std::vector<FuzzTarget> s3_targets() { return {}; }

}  // namespace ndtrain::fuzz
