// What this process brings to ranks that add up by NCCL.
#pragma once

#include "cli/context.h"
#include "framework/comm/library_world.h"

namespace ndtrain::cli {

// `why_not` says what lacks, and the remedy: a GPU, the plugin, or the library below it.
LibraryOffer nccl_offer(const Context& context);

}  // namespace ndtrain::cli
