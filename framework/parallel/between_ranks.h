// What ranks tell one another besides gradients. Collective: all ranks call alike, and wait.
#pragma once

#include <string>

#include "framework/comm/communicator.h"
#include "framework/comm/fingerprint.h"

namespace ndtrain {

// Returns when all ranks have come here.
void barrier(Communicator& communicator);

// Those of rank `root`; what the others give does not count.
std::string broadcast(Communicator& communicator, int root, const std::string& bytes);

// Throws the same Error on all ranks where one has another fingerprint than rank 0: which rank, and
// the first field.
void check_same(Communicator& communicator, const Fingerprint& ours);

}  // namespace ndtrain
