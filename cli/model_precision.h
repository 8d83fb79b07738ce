#pragma once

#include "cli/verb.h"

namespace ndtrain::cli {

// `model verify --precision`: a model against f32 on photos, by what declare_model_verify() takes.
int verify_precision(Context& context, const Args& args);

}  // namespace ndtrain::cli
