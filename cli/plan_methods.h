// ndtrain plan train --link: which way to exchange gradients over a link of that rate comes to an
// accuracy first.
#pragma once

#include "cli/args.h"
#include "cli/context.h"

namespace ndtrain::cli {

void declare_plan_methods(ArgsSpec& args);
// Throws UsageError where flags of these are given without --link.
void refuse_plan_methods(const Args& args);
int run_plan_methods(Context& context, const Args& args);  // an ExitCode

}  // namespace ndtrain::cli
