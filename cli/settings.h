// Flags said outside of the command line: ndtrain.toml in the working directory, by name, and the
// environment, as NDTRAIN_<FLAG>.
#pragma once

#include <span>
#include <string>

#include "cli/verb.h"
#include "ndp/jobs/toml.h"

namespace ndtrain::cli {

// What ndtrain.toml says; empty when there is none. Throws UsageError.
toml::table settings_file();

std::string environment_name(const std::string& flag);  // "val-split": "NDTRAIN_VAL_SPLIT"

// Throws UsageError for a key of the file that is no flag of its verb, or at the top level of none,
// for a table that is no verb, and for a variable NDTRAIN_… that is no flag of any; with the
// nearest that there is.
void check_settings(std::span<const Verb> verbs);

}  // namespace ndtrain::cli
