// What `train` takes and a job of a Tuner does not.
#pragma once

#include "cli/args.h"

namespace ndtrain::cli {

// Whoever gives `finetune` or `job submit` one of these flags is told why it says nothing to a job,
// or what says it there. Flags that the verb has declared stay as they are.
void refuse_flags_of_train(ArgsSpec& args);

}  // namespace ndtrain::cli
