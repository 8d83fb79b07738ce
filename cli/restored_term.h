#pragma once

#include <cstdint>
#include <string>

#include "framework/core/fs.h"

namespace ndtrain::cli {

// `file`, the state.json of a Tuner that was put back at `now` (Unix seconds), gets a term above
// all that were given out since it was saved, so that stores follow it. Throws Error.
void raise_term(Fs& fs, const std::string& file, int64_t now);

}  // namespace ndtrain::cli
