// ndtrain profile --convergence: what large batches and drops cost in loss, by training.
#pragma once

#include "cli/args.h"
#include "cli/context.h"

namespace ndtrain::cli {

void declare_profile_convergence(ArgsSpec& args);
// Throws UsageError where flags of it are given without --convergence.
void refuse_profile_convergence(const Args& args);
int run_profile_convergence(Context& context, const Args& args);  // an ExitCode

}  // namespace ndtrain::cli
