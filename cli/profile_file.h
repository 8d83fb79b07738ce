#pragma once

#include <string>

#include "framework/core/fs.h"
#include "framework/pipeline/planner/model_profile.h"

namespace ndtrain::cli {

// As the file's extension says: .dot for Graphviz, .csv a table, .json the profile itself, else
// AshPipe's graph.txt.
void write_profile(Fs& fs, const std::string& file, const ModelProfile& profile);

}  // namespace ndtrain::cli
