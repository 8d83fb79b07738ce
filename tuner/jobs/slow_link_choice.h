// What the Tuners of a job do over slow links, by what was asked for.
#pragma once

#include <cstdint>
#include <string>

#include "ndp/jobs/slow_link_method.h"
#include "tuner/jobs/job_spec.h"

namespace ndtrain::tuner {

// What ranks are to do.
struct SlowLinkChoice {
  ndp::SlowLinkMethod method;
  int64_t verify_every = 0;
  // Momentum is of gradients before they are sent: the optimizer has none.
  bool optimizer_without_momentum = false;
};

// Of a job whose sync is_slow_link(). Throws Error naming a key, its value and
// what there is, where values are out of range, or keys do not go together or with what else is
// trained how.
SlowLinkChoice slow_link_of(const JobSpec& job);

}  // namespace ndtrain::tuner
