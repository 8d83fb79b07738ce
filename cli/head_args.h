// How verbs that train are told what becomes of the classifier, and in what to compute.
#pragma once

#include <string>

#include "cli/args.h"
#include "framework/core/dtype.h"

namespace ndtrain::cli {

// The flags --head and --add-classes.
void declare_head(ArgsSpec& args);
// What they say, as prepare_transfer() takes it.
std::string head_of(const Args& args);

// The flag --compute, and the type that TrainerConfig::compute takes.
void declare_compute(ArgsSpec& args);
DType compute_of(const Args& args);

}  // namespace ndtrain::cli
