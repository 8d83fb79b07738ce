// Flags of --sync sparse --controller: batches and drop that follow what ranks and links take.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/args.h"
#include "framework/core/fs.h"
#include "framework/core/json_fwd.h"
#include "framework/sparse/sync/sparse_sync.h"
#include "ndp/jobs/slow_link_spec.h"

namespace ndtrain::cli {

// It has --convergence, too, which exchange_choice_args.h declares.
void declare_rates(ArgsSpec& args);

// With spec.controller: fills in what --convergence has. Throws UsageError where flags do not go
// together; Error for a profile that is none, or of another model than `model`, which is a file.
void read_rates(const Args& args, Fs& fs, const std::string& model, ndp::SlowLinkSpec& spec);

// The same of a job, with --convergence; but --dry-run, which says something to other kinds of
// jobs, too.
void declare_job_rates(ArgsSpec& args);
// What is beside SlowLinkSpec, into the job's JSON. Throws UsageError where --convergence is not
// given, or --dry-run without
// --controller; Error for a profile that is none, or of another model than --model.
void read_job_rates(const Args& args, Fs& fs, Json& job);

// As flags and their values; none without --controller.
std::vector<std::pair<std::string, std::string>> rate_settings(const SparseSyncOptions& options);

}  // namespace ndtrain::cli
