// Flags that say which photos are trained on, how often, and how much each counts.
#pragma once

#include "cli/args.h"
#include "ndp/jobs/sampling.h"

namespace ndtrain::cli {

void declare_selection(ArgsSpec& args);       // which, and how often by their age
void declare_weighting(ArgsSpec& args);       // how often and how much by their class
ndp::Sampling sampling_of(const Args& args);  // of both; throws UsageError

}  // namespace ndtrain::cli
