// Plans of the schedules that ask for no times: before anything has been measured.
#pragma once

#include <string_view>

#include "framework/parallel/comm_plan.h"
#include "framework/parallel/cost_profile.h"
#include "framework/parallel/schedules/schedules.h"
#include "framework/train/parameter_space.h"

namespace ndtrain {

// A layer for each slot of the parameters, in forward order; all times are 0.
CostProfile sizes_of(const ParameterSpace& parameters, int ranks);

// Else it goes by times: mg-wfbp, bytescheduler, pipedap, auto. Throws Error where there is no such
// schedule, which lists those there are.
bool goes_by_sizes(std::string_view schedule);

// Throws Error likewise, where it goes by times, and where make_comm_plan() does.
CommPlan plan_by_sizes(std::string_view schedule, const ParameterSpace& parameters, int ranks,
                       const ScheduleOptions& options = {});

// Before times are measured: this schedule's plan, or ddp's where it goes by times.
CommPlan first_plan(std::string_view schedule, const ParameterSpace& parameters, int ranks,
                    const ScheduleOptions& options = {});
// The name of the schedule that ranks follow: its own, or "ddp" where it goes by times and there
// are none yet (`costs`).
std::string_view followed(std::string_view schedule, bool costs);

}  // namespace ndtrain
