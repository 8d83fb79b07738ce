// A published version's files are the parts that stores run; the run of its job has the whole.
#pragma once

#include "tuner/models/model_store.h"
#include "tuner/models/versions.h"

namespace ndtrain::tuner {

// Puts it into `models`. `jobs` is the directory of the Tuner's jobs. kNotFound: the run is no
// longer there, or another's; else as ModelStore::add. Thread-safe.
Result<Digest> whole_model(Fs& fs, ModelStore& models, const std::string& jobs,
                           const PublishedModel& version);

}  // namespace ndtrain::tuner
