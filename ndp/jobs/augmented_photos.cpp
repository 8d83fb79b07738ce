#include "ndp/jobs/augmented_photos.h"

#include "ndp/photos/random_changes.h"

namespace ndtrain::ndp {
namespace {

Image cropped(const Image& photo, const AugmentationDraw& draw, const Preprocess& p) {
  return crop(photo, draw.box(photo.width, photo.height), p);
}

}  // namespace

Image changed(const Augmentation& what, const AugmentationDraw& draw, Image image) {
  if (what.flip && draw.flips()) image = mirrored(std::move(image));
  if (what.randaugment) {
    for (const RandomOperation& o : random_operations(draw)) image = operated(std::move(image), o);
  }
  if (what.jitter) image = jittered(std::move(image), colour_jitter(draw));
  return image;
}

void AugmentedPhotos::read(size_t photo, int64_t epoch, float* to) const {
  const Preprocess& p = photos_.preprocess();
  const AugmentationDraw draw(config_.seed, epoch, photo);
  Image image = config_.what.crop ? cropped(photos_.whole(photo), draw, p) : photos_.crop_of(photo);
  normalize(changed(config_.what, draw, std::move(image)), p, to);
  if (!config_.what.cutout) return;
  const double probability = static_cast<double>(epoch) / static_cast<double>(config_.epochs);
  if (const auto box = draw.cutout(p.img_size, probability)) cut_out(*box, p, to);
}

}  // namespace ndtrain::ndp
