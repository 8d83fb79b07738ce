// How verbs are told in which precision a model computes.
#pragma once

#include "cli/args.h"
#include "ndp/jobs/low_precision.h"

namespace ndtrain::cli {
using namespace ndp;

// The flags --precision and --max-drop.
void declare_precision_flags(ArgsSpec& args);
// What they say; comparisons are kept in `cache`. Throws UsageError.
PrecisionConfig precision_config(const Args& args, const std::string& cache);

}  // namespace ndtrain::cli
