#pragma once

#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "ndp/photos/preprocess.h"
#include "tuner/plan/plan_inputs.h"

namespace ndtrain::tuner {
using namespace ndp;

// Photos to measure with, in memory.
struct TimedPhotos {
  std::vector<std::string> names, files;
  double photos = 0;      // of the collection that the sample is from
  double mean_bytes = 0;  // of all of them
};

// `most` readable photos from all over the directory. Throws Error when there are none.
TimedPhotos sample_photos(Fs& fs, const std::string& directory, size_t most);
// Drawn JPEGs of about `bytes` each, where there is no directory to look at.
TimedPhotos draw_photos(double bytes, size_t count, uint64_t seed);

// What a photo costs one core: wall time of the shared threads, times how many there are. Photos
// that cannot be read are dropped from the sample; throws Error when none is left.
PhotoCosts measure_photos(TimedPhotos& sample, const Preprocess& preprocess, Clock& clock,
                          double budget_s);

}  // namespace ndtrain::tuner
