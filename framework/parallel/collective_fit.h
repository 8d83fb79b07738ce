// What a collective costs, from measured times.
#pragma once

#include <span>

#include "framework/parallel/cost_profile.h"

namespace ndtrain {

struct CollectiveTiming {
  int64_t bytes;
  double seconds;  // above 0
};

// The least sum of squared errors, each divided by the measured time, none of the two numbers below
// 0. So that a latency shows that is smaller than the noise of large operations, while small ones
// that a link lets through at once do not make it look faster than it is (a token bucket does
// that). Throws Error where fit_rising_line() does, and for a time that is not above 0.
CostProfile::Collective fit_collective(std::span<const CollectiveTiming> timings);

}  // namespace ndtrain
