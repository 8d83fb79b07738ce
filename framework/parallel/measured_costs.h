// What the steps of a training cost all of its ranks, from what each has measured.
#pragma once

#include <span>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/cost_profile.h"
#include "framework/parallel/timed_sync.h"

namespace ndtrain {

// Of all ranks, on all of them; or of those of `among` (between_ranks.h). Collective. Throws Error
// where a rank's are of other slots.
std::vector<StepTimes> gather_times(Communicator& communicator, const StepTimes& ours,
                                    const RankGroup& among = {});

// Into `costs`, whose last layer is slot 0: of each layer, and of the optimizer, as long as on the
// rank where it takes longest. A rank without steps does not count; returns false, and changes
// nothing, where none has any.
bool set_slowest_times(std::span<const StepTimes> of_ranks, CostProfile& costs);

// The rank that computes longest, the first of equals; -1 where none has any steps.
int slowest_rank(std::span<const StepTimes> of_ranks);

}  // namespace ndtrain
