// Flags that `train`, `finetune` and `job submit` have alike: how the part that is not frozen is
// trained.
#pragma once

#include "cli/args.h"

namespace ndtrain::cli {

void declare_training_rules(ArgsSpec& args);

}  // namespace ndtrain::cli
