// Flags of --sync sparse --controller: batches and drop that follow what ranks and links take.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "cli/args.h"
#include "framework/core/fs.h"
#include "framework/core/json_fwd.h"
#include "framework/sparse/sync/sparse_sync.h"

namespace ndtrain::cli {

// It has --convergence, too, which exchange_choice_args.h declares.
inline constexpr std::array<const char*, 3> kRateFlags = {"controller", "largest-batch", "dry-run"};
void declare_rates(ArgsSpec& args);

// With --controller: fills in `options.control`. Throws UsageError where flags do not go together;
// Error for a profile that is none, or of another model than `model`, which is a file.
void set_rates(const Args& args, Fs& fs, const std::string& model, SparseSyncOptions& options);

// With another --sync. Throws UsageError where one of these is given.
void refuse_rates(const Args& args);

// The same of a job, with --convergence; but --dry-run, which says something to other kinds of
// jobs, too.
void declare_job_rates(ArgsSpec& args);
// Into the job's JSON. Throws UsageError where --convergence is not given, or --dry-run without
// --controller; Error for a profile that is none, or of another model than --model.
void read_job_rates(const Args& args, Fs& fs, Json& job);

// As flags and their values; none without --controller.
std::vector<std::pair<std::string, std::string>> rate_settings(const SparseSyncOptions& options);

}  // namespace ndtrain::cli
