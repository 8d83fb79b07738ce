// How verbs that train are told what becomes of the classifier.
#pragma once

#include <string>

#include "cli/args.h"

namespace ndtrain::cli {

// The flags --head and --add-classes.
void declare_head(ArgsSpec& args);
// What they say, as prepare_transfer() takes it.
std::string head_of(const Args& args);

}  // namespace ndtrain::cli
