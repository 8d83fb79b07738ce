// Random changes of training photos: RandomResizedCrop and RandomHorizontalFlip as torchvision has
// them, and cut-out (DeVries and Taylor, arXiv:1708.04552); random_changes.h and mixing.h have the
// others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "framework/core/rng.h"
#include "ndp/photos/preprocess.h"

namespace ndtrain::ndp {

struct Augmentation {
  bool crop = false;         // a random part of the photo, instead of its centre
  bool flip = false;         // of half of the photos, left is right
  bool cutout = false;       // a square is the mean, in more photos from epoch to epoch
  bool jitter = false;       // of the colours: colour_jitter()
  bool randaugment = false;  // two operations of random_operations()
  // Each photo is mixed with another, by one of these where both are above 0: alpha of the
  // Beta(alpha, alpha) from which the share is drawn.
  double mixup = 0, cutmix = 0;

  bool any() const { return *this != Augmentation(); }
  bool mixes() const { return mixup > 0 || cutmix > 0; }
  bool changes_photos() const { return crop || flip || cutout || jitter || randaugment; }
  bool operator==(const Augmentation&) const = default;
};

// Some of crop, flip, cutout, jitter, randaugment, mixup=ALPHA and cutmix=ALPHA, by commas. The
// first throws Error.
Augmentation augmentation_named(std::string_view names);
std::string name_of(const Augmentation& a);

// Throws Error where a part of the model is `frozen`, and features are computed once, for cutout
// and cutmix, for what else changes pixels without `views` of a photo, and for views that would be
// alike; where nothing is frozen for views.
void check_augmentation(const Augmentation& a, int64_t views, bool frozen);

// What is drawn for a photo in an epoch: a function of these and the seed alone, whatever else is
// drawn.
class AugmentationDraw {
 public:
  AugmentationDraw(uint64_t seed, int64_t epoch, uint64_t photo);

  // Of a photo of this size: 8 to 100 % of its area, 3/4 to 4/3 as wide as high. Where ten of them
  // do not fit, the largest at the centre that is no wider and no narrower than these.
  PixelBox box(int width, int height) const;
  bool flips() const;
  // A quarter of the input's side wide and high, inside it: 56 of 224.
  std::optional<PixelBox> cutout(int side, double probability) const;
  // Of colour_jitter(): its i-th choice of the order, below n, and its i-th amount, from 0 to 1.
  int jitter_below(int n, size_t i) const;
  double jitter_uniform(size_t i) const;
  // Of random_operations(): its i-th operation, below n, and whether that goes the other way.
  int operation_below(int n, size_t i) const;
  bool operation_turns(size_t i) const;

 private:
  double uniform(uint64_t draw) const;
  int below(int n, uint64_t draw) const;

  Rng rng_;
  uint64_t first_;
};

Image mirrored(Image image);

// The floats of a box of an input of p.values(), in runs of n from `at` on.
void for_each_run(const PixelBox& box, const Preprocess& p,
                  const std::function<void(size_t at, size_t n)>& f);

// Zero, which is the mean, in a box of an input of p.values() floats.
void cut_out(const PixelBox& box, const Preprocess& p, float* input);

}  // namespace ndtrain::ndp
