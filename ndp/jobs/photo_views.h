#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ndp/engine/engine.h"
#include "ndp/jobs/features.h"
#include "ndp/jobs/training_photos.h"
#include "ndp/jobs/view_rule.h"

namespace ndtrain::ndp {

// The photos of a training in front of a cut, those to train on as their views (ViewRule), whose
// features are kept, and which are seen in turn, one in an epoch.
class PhotoViews {
 public:
  // Keeps the references.
  PhotoViews(const TrainingPhotos& photos, const Preprocess& preprocess, const ViewRule& rule);

  // What features are made of, as FeatureTable::fill takes it: the photos in their order, each to
  // train on as its first view, then the other views. A view has a digest of its own.
  const std::vector<Photo>& items() const { return items_; }
  size_t photo_of(size_t item) const { return photos_of_[item]; }
  // Thread-safe; none where all items are the photos as they are.
  Engine::Crop crop() const;

  // Whether all views of the photo are there.
  bool are_in(const FeatureTable& table, size_t photo) const;
  // Rows of photos to train on. `epoch`: the current one.
  std::unique_ptr<Dataset> rows(FeatureTable& table, const std::vector<size_t>& photos,
                                const std::vector<int64_t>& labels,
                                std::function<int64_t()> epoch) const;

 private:
  size_t item(size_t photo, int64_t view) const;

  const TrainingPhotos& photos_;
  const Preprocess& preprocess_;
  const ViewRule rule_;
  std::vector<Photo> items_;
  std::vector<size_t> photos_of_;  // of each item
  std::vector<size_t> places_;     // of each photo: so many to train on are before it
  size_t trained_ = 0;             // photos to train on
};

}  // namespace ndtrain::ndp
