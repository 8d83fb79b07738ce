#pragma once

#include <span>
#include <string>

#include "framework/core/fs.h"
#include "ndp/jobs/photo_set.h"
#include "ndp/photos/preprocess.h"

namespace ndtrain::cli {
using namespace ndp;

// What the network sees of each photo, as DIR/input_N.pb: a tensor [3, s, s] (or [s, s, 3]) called
// by the photo's path. Bad photos are left out. Throws Error when the directory cannot be written.
void save_inputs(Fs& fs, const PhotoSet& set, const Preprocess& preprocess,
                 const std::string& directory);

}  // namespace ndtrain::cli
