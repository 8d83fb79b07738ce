#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/hash.h"
#include "framework/core/status.h"
#include "ndp/photos/augment.h"
#include "ndp/photos/photo_decoder.h"

namespace ndtrain::ndp {

// Augmentation in front of a cut: each photo to train on is changed at random in some fixed ways,
// its views. What a view is follows from the photo's content, the seed and the view's number.
struct ViewRule {
  Augmentation what = {};  // mixup and cutmix decide nothing here
  uint64_t seed = 0;
  int64_t views = 0;  // of each photo to train on; 0: the photos as they are

  Augmentation pixels() const;  // what is changed in front of a cut
  // Hexadecimal, of all that decides what this view of a photo is but for the photo.
  std::string id(int64_t view) const;
};

// What the network sees of view number `view`, from 0, of a photo whose file is named `name`: see
// crop_photo(). Thread-safe.
Result<Image> crop_view(const std::string& name, std::string_view file, const Digest& photo,
                        const ViewRule& rule, int64_t view, const Preprocess& preprocess,
                        PhotoCost& cost, PhotoDecoder& by = decoder_in_process());

// Under which features of each view are kept in a SegmentStore, each under its photo's digest, so
// that what is deleted finds them; `features`: under which they are of photos as they are. Any
// number of views shares them. Without views: {features}.
std::vector<Digest> groups_of_views(const Digest& features, const ViewRule& rule);

}  // namespace ndtrain::ndp
