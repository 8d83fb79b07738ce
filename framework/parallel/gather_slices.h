// What each rank keeps a part of, put together on all of them.
#pragma once

#include <span>

#include "framework/comm/communicator.h"
#include "framework/parallel/comm_plan.h"

namespace ndtrain {

// `space` lies as the parameters do, and of each bucket has this rank's slice (slices.h), which
// fills in those of the others. Collective: all ranks of the group call alike, and wait.
void gather_slices(Communicator& communicator, const RankGroup& group, const CommPlan& plan,
                   std::span<float> space);

}  // namespace ndtrain
