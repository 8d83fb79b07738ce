// The cuda plugin under test, on a device or on the fakes, and the layouts it is asked in.
#pragma once

#include "tests/runtime/kernel_cases.h"

namespace ndtrain {

// The one that comes first in $NDTRAIN_BACKEND_PATH. Null when there is no device for it: why_not()
// says the reason. Fails the test and is null when it does not load.
Plugin* cuda_plugin();
const std::string& why_not();

// Row-major, and every way in which the plugin wants the ports when images come row-major or
// channels-last.
std::vector<Ports> cuda_ways(const NodeRun& run);

}  // namespace ndtrain
