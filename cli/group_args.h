// Several Tuners that train together: flags of jobs, of the Tuner and of members.
#pragma once

#include <chrono>

#include "cli/args.h"
#include "framework/core/fs.h"
#include "framework/core/json_fwd.h"
#include "tuner/daemon.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

// Of a job: --tuners, --shards and --sync, those of exchanges over slow links, and what they say in
// its JSON. Throws UsageError, and Error for a file that is not as it has to be.
void declare_group(ArgsSpec& args);
void read_group(const Args& args, Fs& fs, Json& job);

// Of a Tuner: --ranks-listen and --rank-timeout, behind what protects it. Throws Error.
void declare_leading(ArgsSpec& args);
void read_leading(const Args& args, TunerConfig& config);

// --rank-timeout. Throws UsageError.
void declare_rank_timeout(ArgsSpec& args);
std::chrono::milliseconds rank_timeout_of(const Args& args);

}  // namespace ndtrain::cli
