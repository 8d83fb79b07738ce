// Photos as people name them on a command line.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ndp/jobs/photo_set.h"

namespace ndtrain::ndp {

struct NamedPhotos {
  // Each names one of these: a directory, for all photos below it; a photo; photos and directories
  // by a pattern (*, ?, [a-z], and ** for any number of directories) that is no file's name; a list
  // of paths, one a line, which is any other file, or "-" for `input`.
  std::vector<std::string> names;
  std::function<std::string()> input = {};  // stdin, read when it is asked for
  std::string root = {};  // "": the directory, where one alone is named, else the working directory
  std::string cache = {};  // where lists of directories are kept
};

// Photos of S3 or RADOS that were read just now, with their bytes, so that they need not be fetched
// again; their paths are those that the set has. False: no more are read.
using OnNamedRead = std::function<bool(std::vector<PhotoRead> part)>;

// Paths are below the root; without one they are as they were named. What is named twice is there
// once. A path in a list at which nothing can be read is quarantined. Throws Error, naming it, for
// any other name that stands for nothing, for a photo that is not below the root, and where S3
// or RADOS does not answer.
PhotoSet read_named_photos(Fs& fs, const NamedPhotos& named, Progress& progress,
                           const OnNamedRead& on_read = {});

}  // namespace ndtrain::ndp
