#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ndp/jobs/database_labels.h"
#include "ndp/jobs/photo_set.h"

namespace ndtrain::ndp {

// The photos of a training: those to train on and those to validate with, told apart.
struct TrainingPhotos {
  PhotoSet set;                      // training photos, then those of DATA/val; one list of classes
  std::vector<std::string> roots;    // per photo: the directory its path is below
  std::vector<bool> for_validation;  // per photo
  double val_split = 0;              // the share that was split off by content; 0 with a DATA/val

  std::string path(size_t photo) const { return join(roots[photo], set.photos[photo].path); }
};

struct TrainingPhotosConfig {
  std::string data;    // DATA/train and DATA/val, or a directory per class, or any with `labels`
  std::string labels;  // a CSV file,class; "": directories are classes
  DatabaseLabelsConfig database = {};  // instead of both
  double val_split = -1;  // < 0: DATA/val, or a fifth of the photos where there is none
  std::string cache;      // where catalogues are kept
};

// Throws Error when nothing can be read, or the database labels none of the photos.
TrainingPhotos load_training_photos(Fs& fs, const TrainingPhotosConfig& config, Progress& progress);

// Hexadecimal: which photos, what each is for, labelled as what.
std::string digest_of(const TrainingPhotos& photos);

}  // namespace ndtrain::ndp
