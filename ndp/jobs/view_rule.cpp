#include "ndp/jobs/view_rule.h"

#include <cstring>

#include "ndp/jobs/augmented_photos.h"

namespace ndtrain::ndp {
namespace {

// A number by which a photo's draws are its own wherever it lies.
uint64_t number_of(const Digest& photo) {
  uint64_t number = 0;
  std::memcpy(&number, photo.data(), sizeof(number));
  return number;
}

}  // namespace

Augmentation ViewRule::pixels() const {
  Augmentation changes = what;
  changes.mixup = changes.cutmix = 0;
  return changes;
}

std::string ViewRule::id(int64_t view) const {
  Sha256 hash;
  hash.field("view").field(name_of(pixels())).field(static_cast<int64_t>(seed)).field(view);
  return to_hex(hash.finish());
}

Result<Image> crop_view(const std::string& name, std::string_view file, const Digest& photo,
                        const ViewRule& rule, int64_t view, const Preprocess& preprocess,
                        PhotoCost& cost, PhotoDecoder& by) {
  const AugmentationDraw draw(rule.seed, view, number_of(photo));
  Result<Image> pixels = rule.what.crop ? decode_photo(name, file, {}, cost, by)
                                        : crop_photo(name, file, preprocess, cost, by);
  if (!pixels.ok()) return pixels;
  if (rule.what.crop) {
    *pixels = crop(*pixels, draw.box(pixels->width, pixels->height), preprocess);
  }
  return changed(rule.what, draw, std::move(*pixels));
}

std::vector<Digest> groups_of_views(const Digest& features, const ViewRule& rule) {
  if (rule.views == 0) return {features};
  std::vector<Digest> groups;
  for (int64_t view = 0; view < rule.views; ++view) {
    groups.push_back(Sha256().field(to_hex(features)).field(rule.id(view)).finish());
  }
  return groups;
}

}  // namespace ndtrain::ndp
