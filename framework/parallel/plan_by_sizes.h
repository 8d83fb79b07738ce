// Plans of the schedules that ask for no times: before anything has been measured.
#pragma once

#include <string_view>

#include "framework/parallel/comm_plan.h"
#include "framework/parallel/cost_profile.h"
#include "framework/train/parameter_space.h"

namespace ndtrain {

// A layer for each slot of the parameters, in forward order; all times are 0.
CostProfile sizes_of(const ParameterSpace& parameters, int ranks);

// Throws Error where there is no such schedule, or it goes by times; there are blocking, wfbp, ddp,
// rb and dear.
void check_goes_by_sizes(std::string_view schedule);

// Throws likewise.
CommPlan plan_by_sizes(std::string_view schedule, const ParameterSpace& parameters, int ranks);

}  // namespace ndtrain
