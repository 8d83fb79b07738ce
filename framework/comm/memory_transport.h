// Ranks as threads of one process.
#pragma once

#include <memory>
#include <vector>

#include "framework/comm/transport.h"

namespace ndtrain {

// One for each rank. A message is copied once, when both its send and its receive are there, and
// only then is the send done: what relies on room under way waits for ever here. A rank whose
// transport is destroyed is gone, and with it what it sent and nobody has received.
std::vector<std::unique_ptr<Transport>> memory_transports(int ranks);

}  // namespace ndtrain
