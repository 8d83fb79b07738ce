// What a job may ask for: each value within its bounds, and nothing beside what contradicts it.
#pragma once

#include "tuner/jobs/job_spec.h"

namespace ndtrain::tuner {

// Throws Error naming the key, its value and what it may be.
void check_job_spec(const JobSpec& spec);

}  // namespace ndtrain::tuner
