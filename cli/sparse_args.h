// Flags of --sync sparse: what ranks send of their gradients.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/args.h"
#include "framework/sparse/sync/sparse_sync.h"

namespace ndtrain::cli {

// It has --staleness, too, which stages have declared.
inline constexpr std::array<const char*, 3> kSparseStepFlags = {"sparse-momentum", "pieces",
                                                                "drop-of"};
// Which elements travel; --sync local and diloco have these, too.
inline constexpr std::array<const char*, 4> kSelectionFlags = {"compressor", "drop", "scan",
                                                               "all-gather"};
void declare_sparse(ArgsSpec& args);

// --drop, if there is one; a compressor that exists. Throw UsageError.
std::optional<double> drop_of(const Args& args);
void check_compressor(const Args& args);

// --scan alone, which benches have, too.
void declare_scan(ArgsSpec& args);
bool scan_rotates(const Args& args);  // throws UsageError

GatherRoute gather_route_of(const Args& args);  // --all-gather; throws UsageError

// --wire-dtype over slow links: of selections, and of what is added up as it travels. Throw
// UsageError.
ValueCoding value_wire_of(const Args& args);
DType float_wire_of(const Args& args);

// With --sync sparse. Throws UsageError where flags do not go together.
SparseSyncOptions sparse_of(const Args& args, uint64_t seed);

// As flags and their values, also where they were not given.
std::vector<std::pair<std::string, std::string>> sparse_settings(const SparseSyncOptions& options);

}  // namespace ndtrain::cli
