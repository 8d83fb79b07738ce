#pragma once

#include <string>
#include <vector>

#include "framework/core/hash.h"

namespace ndtrain::ndp {

// Labels that a job has made of photos of the store.
struct JobLabels {
  struct Photo {
    Digest id{};
    std::string path;  // below the photo directory
    std::string label;
    float score = 0;
  };
  std::string model;  // the digests of its extractor and head, as UploadLog::Known::files
  std::vector<Photo> photos;
};

}  // namespace ndtrain::ndp
