// Flags of --sync sparse: what ranks send of their gradients.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/args.h"
#include "framework/sparse/sync/sparse_training.h"

namespace ndtrain::cli {

// --compressor, --drop, --scan, --sparse-momentum. It has --staleness and --drain-every, too, which
// stages have declared.
void declare_sparse(ArgsSpec& args);

// --scan alone, which benches have, too.
void declare_scan(ArgsSpec& args);
bool scan_rotates(const Args& args);  // throws UsageError

// Whether --sync is sparse.
bool is_sparse(const Args& args);

struct SparseAsked {
  SparseSyncOptions sync;
  int64_t drain_every = SparseTraining::Options{}.drain_every;
};
// None without --sync sparse. Throws UsageError where flags do not go together.
std::optional<SparseAsked> sparse_of(const Args& args, uint64_t seed);

// These as flags and their values, also where they were not given: another model with others.
std::vector<std::pair<std::string, std::string>> sparse_settings(const SparseAsked& asked);

}  // namespace ndtrain::cli
