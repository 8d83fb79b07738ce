// Random changes of a training photo's colours and shape, as torchvision's ColorJitter and
// RandAugment have them.
#pragma once

#include <array>

#include "ndp/photos/augment.h"

namespace ndtrain::ndp {

// ColorJitter(0.4, 0.4, 0.4, 0.1): brightness, contrast and saturation by 0.6 to 1.4, and the hue
// turned by up to a tenth of the circle, one after the other in any order.
struct ColourJitter {
  enum Change { kBrightness, kContrast, kSaturation, kHue };
  std::array<Change, 4> order = {};
  std::array<double, 4> amount = {};  // of each Change
};
ColourJitter colour_jitter(const AugmentationDraw& draw);
Image jittered(Image image, const ColourJitter& jitter);

// RandAugment (Cubuk et al., arXiv:1909.13719) with torchvision's 14 operations and defaults: two
// of them, one after the other, at magnitude 9 of 30; those that have two directions go either way.
struct RandomOperation {
  int index = 0;          // 0 to kRandomOperations - 1
  bool negative = false;  // the other direction
};
inline constexpr int kRandomOperations = 14;
std::array<RandomOperation, 2> random_operations(const AugmentationDraw& draw);
Image operated(Image image, const RandomOperation& operation);

}  // namespace ndtrain::ndp
