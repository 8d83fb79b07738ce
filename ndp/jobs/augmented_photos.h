#pragma once

#include "ndp/jobs/photo_rows.h"
#include "ndp/photos/augment.h"

namespace ndtrain::ndp {

// What is drawn of flips, operations and colours for a picture that is cropped already.
Image changed(const Augmentation& what, const AugmentationDraw& draw, Image image);

// Training photos as the network's input, changed at random: each epoch otherwise, and the same in
// whatever order, batch or process they are asked for.
class AugmentedPhotos {
 public:
  struct Config {
    Augmentation what;
    uint64_t seed = 0;
    int64_t epochs = 1;  // cut-out is of epoch / epochs of the photos
  };

  AugmentedPhotos(const PhotoRows& photos, const Config& config)
      : photos_(photos), config_(config) {}

  // As PhotoRows::read, in an epoch from 0. A photo that is cropped is decoded each time, at its
  // full size.
  void read(size_t photo, int64_t epoch, float* to) const;

 private:
  const PhotoRows& photos_;
  Config config_;
};

}  // namespace ndtrain::ndp
