#pragma once

#include <map>
#include <string>

#include "cli/args.h"

namespace ndtrain::cli {

// The flag --dim NAME=N, any number of times: extents of symbolic dimensions.
void declare_dims(ArgsSpec& args);
std::map<std::string, int64_t> dims_of(const Args& args);  // throws UsageError

}  // namespace ndtrain::cli
