// Which jobs may run beside each other: those that want nothing of each other, so that what comes
// of them is what would come of one after the other, in the order in which they were submitted
// (conflict serializability: Bernstein, Hadzilacos, Goodman, Concurrency Control and Recovery in
// Database Systems, 1987, chapter 2). docs/decisions/71 says what that is for each two kinds.
#pragma once

#include <cstddef>
#include <string>

#include "tuner/jobs/job_spec.h"

namespace ndtrain::tuner {

inline constexpr size_t kMostJobsAtOnce = 4;  // that a Tuner runs

// Why `later` waits until `earlier` is over, for people; "": they may run beside each other.
std::string conflict(const JobSpec& earlier, const JobSpec& later);

}  // namespace ndtrain::tuner
