// What /metrics says of the process itself, under the names that Prometheus' own clients use.
#pragma once

#include "ndp/http/metrics.h"

namespace ndtrain::ndp {

// Its memory, what of it the heap has given out, to databases among others, and what lies there
// free, descriptors and threads.
void add_process(MetricsText& to);

}  // namespace ndtrain::ndp
