#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ndp/jobs/model_check.h"

namespace ndtrain::ndp {

// What a program is called with to be a model worker.
inline constexpr std::string_view kModelWorker = "model-worker";

// A model worker's life: takes its limits, confines itself (confinement.h), and imports the model
// that it is given by `importer`, on this thread, until the other end is gone. The process's exit
// status. It does not return to a process that has anything else to do: that is confined for good.
int serve_importing(const std::function<void(std::string file)>& importer = try_model);

}  // namespace ndtrain::ndp
