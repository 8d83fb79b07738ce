// Flags of --sync local and diloco: ranks that train by themselves, and agree now and then.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "cli/args.h"
#include "framework/sparse/local/local_steps.h"

namespace ndtrain::cli {

inline constexpr std::array<const char*, 6> kLocalFlags = {
    "inner-steps", "outer-lr", "outer-momentum", "fragments", "overlap", "mixing"};
void declare_local(ArgsSpec& args);

// With --sync local or diloco. Throws UsageError where flags do not go together.
LocalStepsOptions local_of(const Args& args, uint64_t seed);

// As flags and their values, also where they were not given.
std::vector<std::pair<std::string, std::string>> local_settings(const LocalStepsOptions& options);

}  // namespace ndtrain::cli
