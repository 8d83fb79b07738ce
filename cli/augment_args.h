// The flags that say how training photos are changed at random.
#pragma once

#include "cli/args.h"
#include "ndp/photos/augment.h"

namespace ndtrain::cli {

void declare_augmentation(ArgsSpec& args);
ndp::Augmentation augmentation_of(const Args& args);  // throws UsageError
int64_t views_of(const Args& args);                   // 0: photos as they are; throws UsageError

}  // namespace ndtrain::cli
