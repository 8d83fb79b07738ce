// Flags of --sync local and diloco: ranks that train by themselves, and agree now and then.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/args.h"
#include "framework/sparse/local/local_steps.h"

namespace ndtrain::cli {

void declare_local(ArgsSpec& args);

// As flags and their values, also where they were not given.
std::vector<std::pair<std::string, std::string>> local_settings(const LocalStepsOptions& options);

}  // namespace ndtrain::cli
