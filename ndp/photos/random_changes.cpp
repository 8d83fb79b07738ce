#include "ndp/photos/random_changes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ndp/photos/colour_changes.h"

namespace ndtrain::ndp {
namespace {

constexpr double kJitter = 0.4, kHueJitter = 0.1;

// torchvision's ranges, of which magnitude 9 is three tenths.
constexpr double kMagnitude = 9.0 / 30;
constexpr double kShearBy = 0.3 * kMagnitude;
constexpr double kShift = 150.0 / 331 * kMagnitude;  // of the side
constexpr double kDegrees = 30 * kMagnitude;
constexpr double kEnhance = 0.9 * kMagnitude;
constexpr int kPosterBits = 7;  // 8 - round(9 / (30 / 4))
constexpr double kSolarThreshold = 255 * (1 - kMagnitude);

// In torchvision's order.
enum Operation {
  kNothing,
  kShearX,
  kShearY,
  kShiftX,
  kShiftY,
  kRotate,
  kBrightness,
  kSaturation,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutocontrast,
  kEqualize
};
static_assert(kEqualize + 1 == kRandomOperations);

}  // namespace

ColourJitter colour_jitter(const AugmentationDraw& draw) {
  ColourJitter jitter{.order = {ColourJitter::kBrightness, ColourJitter::kContrast,
                                ColourJitter::kSaturation, ColourJitter::kHue}};
  for (size_t i = 0; i + 1 < jitter.order.size(); ++i) {
    const auto left = static_cast<int>(jitter.order.size() - i);
    const auto chosen = static_cast<size_t>(draw.jitter_below(left, i));
    std::swap(jitter.order[i], jitter.order[i + chosen]);
  }
  for (size_t i = 0; i < jitter.amount.size(); ++i) {
    const double at = 2 * draw.jitter_uniform(i) - 1;  // from -1 to 1
    jitter.amount[i] = i == ColourJitter::kHue ? kHueJitter * at : 1 + kJitter * at;
  }
  return jitter;
}

Image jittered(Image image, const ColourJitter& jitter) {
  for (const ColourJitter::Change change : jitter.order) {
    const double amount = jitter.amount.at(change);
    switch (change) {
      case ColourJitter::kBrightness:
        image = with_brightness(image, amount);
        break;
      case ColourJitter::kContrast:
        image = with_contrast(image, amount);
        break;
      case ColourJitter::kSaturation:
        image = with_saturation(image, amount);
        break;
      case ColourJitter::kHue:
        image = with_hue(image, amount);
        break;
    }
  }
  return image;
}

std::array<RandomOperation, 2> random_operations(const AugmentationDraw& draw) {
  std::array<RandomOperation, 2> operations;
  for (size_t i = 0; i < operations.size(); ++i) {
    operations[i] = {.index = draw.operation_below(kRandomOperations, i),
                     .negative = draw.operation_turns(i)};
  }
  return operations;
}

Image operated(Image image, const RandomOperation& operation) {
  const double way = operation.negative ? -1 : 1;
  switch (operation.index) {
    case 1:
      return transformed(image, {.b = way * kShearBy});
    case 2:
      return transformed(image, {.d = way * kShearBy});
    case 3:
      return transformed(image, {.c = -way * std::trunc(kShift * image.width)});
    case 4:
      return transformed(image, {.f = -way * std::trunc(kShift * image.height)});
    case 5:
      return rotated(image, way * kDegrees);
    case 6:
      return with_brightness(image, 1 + way * kEnhance);
    case 7:
      return with_saturation(image, 1 + way * kEnhance);
    case 8:
      return with_contrast(image, 1 + way * kEnhance);
    case 9:
      return with_sharpness(image, 1 + way * kEnhance);
    case 10:
      return posterized(image, kPosterBits);
    case 11:
      return solarized(image, kSolarThreshold);
    case 12:
      return autocontrasted(image);
    case 13:
      return equalized(image);
    default:
      return image;
  }
}

}  // namespace ndtrain::ndp
