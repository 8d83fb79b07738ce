// What ranks tell one another besides gradients. Collective: all ranks call alike, and wait; or
// those of `among` do (none: all that there are), each of which is one of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/comm/fingerprint.h"

namespace ndtrain {

// Returns when all ranks have come here.
void barrier(Communicator& communicator, const RankGroup& among = {});

// Those of rank `root`; what the others give does not count.
std::string broadcast(Communicator& communicator, int root, const std::string& bytes,
                      const RankGroup& among = {});

// What rank `root` broadcasts to all, as another of them; nothing where `stop`, which is asked
// again and again until it begins, is true first: this rank has left the others then.
std::optional<std::string> await_broadcast(Communicator& communicator, int root,
                                           const std::function<bool()>& stop);

// What each rank gives, to all of them.
std::vector<std::string> gather(Communicator& communicator, const std::string& ours,
                                const RankGroup& among = {});

// Whether some rank says so.
bool any_of_ranks(Communicator& communicator, bool ours);

// Throws the same Error on all ranks where one has another fingerprint than rank 0: which rank, and
// the first field.
void check_same(Communicator& communicator, const Fingerprint& ours);

}  // namespace ndtrain
