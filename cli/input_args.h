#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/args.h"

namespace ndtrain::cli {

// The flag --input NAME=VALUE, any number of times: inputs of a model that are constants.
void declare_inputs(ArgsSpec& args);
std::map<std::string, std::vector<double>> inputs_of(const Args& args);  // throws UsageError

}  // namespace ndtrain::cli
