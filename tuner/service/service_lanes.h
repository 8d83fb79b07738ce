// Where the service has slow work done; see framework/core/lanes.h.
#pragma once

#include <cstddef>

namespace ndtrain::tuner {

inline constexpr size_t kKeepLane = 0;    // rows of the job in progress
inline constexpr size_t kJobLane = 1;     // its own work
inline constexpr size_t kDeltaLane = 2;   // deltas between models
inline constexpr size_t kUploadLane = 3;  // what stores say of uploads, and deletions
inline constexpr size_t kServiceLanes = 4;

}  // namespace ndtrain::tuner
