// Measures on this machine what the planner wants to know of a model and of photos.
#pragma once

#include <string>

#include "framework/core/clock.h"
#include "framework/core/dtype.h"
#include "framework/core/fs.h"
#include "framework/runtime/backend.h"
#include "ndp/jobs/progress.h"
#include "tuner/plan/plan_profile.h"

namespace ndtrain::tuner {
using namespace ndp;

struct MeasureConfig {
  std::string model;
  std::string
      scratch;  // an empty directory of the caller's, on a disk like that of a Tuner's state
  std::string photos = {};  // a directory, as `ndtrain train` takes it; "": photos are drawn
  std::string labels = {};  // what they show: a CSV file,class; "": their directories, if any
  double photo_bytes = 0;   // of drawn photos
  std::string head = "keep", freeze = "auto";
  DType feature_dtype = DType::kF16;
  int64_t batch = 64;     // of a training step
  size_t sample = 64;     // photos to measure with
  double budget_s = 0.5;  // for each measurement, roughly
  uint64_t seed = 0;
};

// Both roles have as many cores as there are shared threads, and the speed that was measured. The
// classes are those that the photos show where that is known, else the model's. Throws Error.
Profile measure_profile(const MeasureConfig& config, const Device& device, Fs& fs, Clock& clock,
                        Progress& progress);

}  // namespace ndtrain::tuner
