// Flags that say which photos are trained on, how often, and how much each counts.
#pragma once

#include "cli/args.h"
#include "ndp/jobs/sampling.h"

namespace ndtrain::cli {

void declare_sampling(ArgsSpec& args);
ndp::Sampling sampling_of(const Args& args);  // throws UsageError

}  // namespace ndtrain::cli
