// Where the service has slow work done; see framework/core/lanes.h.
#pragma once

#include <cstddef>
#include <string_view>

#include "tuner/jobs/job_conflict.h"

namespace ndtrain::tuner {

inline constexpr size_t kDeltaLane = 0;   // deltas between models
inline constexpr size_t kUploadLane = 1;  // what stores say of uploads, and deletions

// A job in progress has two lanes, by its slot, below kMostJobsAtOnce.
inline constexpr size_t keep_lane(size_t slot) { return 2 + 2 * slot; }  // its rows
inline constexpr size_t job_lane(size_t slot) { return 3 + 2 * slot; }   // its own work
inline constexpr size_t kServiceLanes = 2 + 2 * kMostJobsAtOnce;

// For people: those of all slots have one name.
inline constexpr std::string_view lane_name(size_t lane) {
  if (lane == kDeltaLane) return "delta";
  if (lane == kUploadLane) return "upload";
  return lane >= kServiceLanes ? "watch" : lane % 2 == 0 ? "keep" : "job";
}

}  // namespace ndtrain::tuner
