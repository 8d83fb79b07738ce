#include "ndp/jobs/photo_views.h"

#include <algorithm>
#include <utility>

#include "framework/core/hash.h"

namespace ndtrain::ndp {
namespace {

Digest digest_of_view(const Digest& photo, const ViewRule& rule, int64_t view) {
  return Sha256().field(to_hex(photo)).field(rule.id(view)).finish();
}

// One of several data sets of the same rows in each epoch.
class RowsInTurn final : public Dataset {
 public:
  RowsInTurn(std::vector<std::unique_ptr<Dataset>> sets, std::function<int64_t()> epoch)
      : sets_(std::move(sets)), epoch_(std::move(epoch)) {}

  int64_t size() const override { return sets_.front()->size(); }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override {
    sets_[static_cast<size_t>(epoch_()) % sets_.size()]->fetch(rows, inputs, labels);
  }

 private:
  std::vector<std::unique_ptr<Dataset>> sets_;
  std::function<int64_t()> epoch_;
};

}  // namespace

PhotoViews::PhotoViews(const TrainingPhotos& photos, const Preprocess& preprocess,
                       const ViewRule& rule)
    : photos_(photos), preprocess_(preprocess), rule_(rule), items_(photos.set.photos) {
  for (size_t i = 0; i < items_.size(); ++i) {
    photos_of_.push_back(i);
    places_.push_back(trained_);
    trained_ += !photos_.for_validation[i];
  }
  const size_t n = items_.size();
  for (int64_t v = 0; v < rule_.views; ++v) {
    for (size_t i = 0; i < n; ++i) {
      if (photos_.for_validation[i]) continue;
      if (v > 0) {
        items_.push_back(photos_.set.photos[i]);
        photos_of_.push_back(i);
      }
      Photo& view = items_[item(i, v)];
      view.digest = digest_of_view(view.digest, rule_, v);
      view.view = v;
    }
  }
}

size_t PhotoViews::item(size_t photo, int64_t view) const {
  if (view == 0) return photo;
  return places_.size() + static_cast<size_t>(view - 1) * trained_ + places_[photo];
}

Engine::Crop PhotoViews::crop() const {
  if (rule_.views == 0) return {};
  return [this](size_t item, const std::string& name, std::string_view file,
                PhotoCost& cost) -> Result<Image> {
    if (photos_.for_validation[photos_of_[item]]) return crop_photo(name, file, preprocess_, cost);
    return crop_view(name, file, photos_.set.photos[photos_of_[item]].digest, rule_,
                     items_[item].view, preprocess_, cost);
  };
}

bool PhotoViews::are_in(const FeatureTable& table, size_t photo) const {
  if (photos_.for_validation[photo]) return table.has(photo);
  for (int64_t v = 0; v < std::max<int64_t>(rule_.views, 1); ++v) {
    if (!table.has(item(photo, v))) return false;
  }
  return true;
}

std::unique_ptr<Dataset> PhotoViews::rows(FeatureTable& table, const std::vector<size_t>& photos,
                                          const std::vector<int64_t>& labels,
                                          std::function<int64_t()> epoch) const {
  std::vector<std::unique_ptr<Dataset>> sets;
  for (int64_t v = 0; v < std::max<int64_t>(rule_.views, 1); ++v) {
    std::vector<size_t> items;
    for (const size_t photo : photos) items.push_back(item(photo, v));
    sets.push_back(std::make_unique<FeatureDataset>(table, std::move(items), labels));
  }
  return std::make_unique<RowsInTurn>(std::move(sets), std::move(epoch));
}

}  // namespace ndtrain::ndp
