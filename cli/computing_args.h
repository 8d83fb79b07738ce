// Flags of what a verb shares with others by its Context.
#pragma once

#include "cli/args.h"

namespace ndtrain::cli {

// --seed, of a verb that draws.
void declare_seed(ArgsSpec& args);

// -j, of a verb that computes, hashes or decodes by threads.
void declare_threads(ArgsSpec& args);

// --device, --less-memory, --tf32, --tuning and -j, of a verb that computes networks on
// Context::device(), or by its name and options.
void declare_computing(ArgsSpec& args);

}  // namespace ndtrain::cli
