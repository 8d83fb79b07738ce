// What ranks exchange in a step, and how; the schedule of it is --sync's.
#pragma once

#include <string>

#include "cli/args.h"
#include "framework/parallel/exchange_sync.h"

namespace ndtrain::cli {

// --shard-optimizer, --wire-dtype, --comm-only.
void declare_exchange(ArgsSpec& args);

// Of a run of so many ranks. Throws UsageError.
ExchangeOptions exchange_of(const Args& args, int ranks);

// Throws UsageError where the flag's value is the name of a compressor of gradients, or of integers
// they travel as, which other flags have.
void refuse_compressor(const std::string& flag, const std::string& value);

}  // namespace ndtrain::cli
