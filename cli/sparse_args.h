// Flags of --sync sparse: what ranks send of their gradients.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/args.h"
#include "framework/sparse/sync/sparse_sync.h"

namespace ndtrain::cli {

// It has --staleness, too, which stages have declared.
void declare_sparse(ArgsSpec& args);

// --scan alone, which benches have, too.
void declare_scan(ArgsSpec& args);
bool scan_rotates(const Args& args);  // throws UsageError

// As flags and their values, also where they were not given.
std::vector<std::pair<std::string, std::string>> sparse_settings(const SparseSyncOptions& options);

}  // namespace ndtrain::cli
