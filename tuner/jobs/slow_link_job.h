// How the Tuners of a job exchange over slow links: SlowLinkSpec in the job's JSON.
#pragma once

#include "framework/core/json_fwd.h"
#include "ndp/jobs/slow_link_choice.h"

namespace ndtrain::tuner {

class JobReader;
struct JobSpec;

// Throws Error for values of another kind.
void take_slow_link(JobReader& r, ndp::SlowLinkSpec& spec);
// The keys that were asked for. Older Tuners do not know them.
void add_slow_link(Json& j, const ndp::SlowLinkSpec& spec);

// Of a job whose sync is_slow_link(). Throws Error as ndp::slow_link_of() does.
ndp::SlowLinkChoice slow_link_of(const JobSpec& job);
// Throws Error where keys are given that another sync has.
void refuse_slow_link_keys(const JobSpec& job);

}  // namespace ndtrain::tuner
