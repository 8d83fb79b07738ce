// Flags of --sync sparse --controller: batches and drop that follow what ranks and links take.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "cli/args.h"
#include "framework/core/fs.h"
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

// As flags and their values; none without --controller.
std::vector<std::pair<std::string, std::string>> rate_settings(const SparseSyncOptions& options);

}  // namespace ndtrain::cli
