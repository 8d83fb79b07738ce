#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ndp/deltas/delta.h"
#include "ndp/jobs/model_check.h"

namespace ndtrain::ndp {

// What a program is called with to be a model worker.
inline constexpr std::string_view kModelWorker = "model-worker";

struct ModelTasks {
  std::function<void(std::string file)> importer = try_model;
  std::function<Result<std::string>(std::string_view base, std::string_view delta)> applier =
      apply_delta;
};

// A model worker's life: takes its limits, confines itself (confinement.h), and imports the model,
// or applies the delta, that it is given, on this thread, until the other end is gone. The
// process's exit status. It does not return to a process that has anything else to do: that is
// confined for good.
int serve_importing(const ModelTasks& tasks = {});

}  // namespace ndtrain::ndp
