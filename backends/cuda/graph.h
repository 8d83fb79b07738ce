// What a stream was given between capture_begin and capture_end, as one kernel.
#pragma once

#include <memory>

#include "backends/cuda/kernel.h"

namespace ndtrain::cuda {

void begin_capture(ndt_stream& stream);
// Throws Unsupported when something was enqueued that cannot be captured. Replays use the same
// addresses, whatever run() is given; the kernels that were captured must outlive the graph.
std::unique_ptr<Kernel> end_capture(ndt_stream& stream);

}  // namespace ndtrain::cuda
