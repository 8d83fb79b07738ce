// What plugins that compute in the host's threads and memory have in common: the one device, its
// memory, its streams. Work is done in the calling thread and those the host lends, so a stream is
// in order by nature.
#pragma once

#include "backends/plugin/answer.h"
#include "backends/plugin/host_kernel.h"

namespace ndtrain::plugin {

// The plugin adds numerics, open, close, prepare, and what it has of the optional ones.
ndt_backend host_backend(const char* name);

// Throws std::invalid_argument for the index of another device than the one there is.
void check_device_index(const char* name, int32_t index);

}  // namespace ndtrain::plugin
