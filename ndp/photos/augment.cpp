#include "ndp/photos/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "framework/core/error.h"
#include "ndp/photos/exif.h"

namespace ndtrain::ndp {
namespace {

constexpr std::array<std::pair<std::string_view, bool Augmentation::*>, 5> kNames = {
    {{"crop", &Augmentation::crop},
     {"flip", &Augmentation::flip},
     {"cutout", &Augmentation::cutout},
     {"jitter", &Augmentation::jitter},
     {"randaugment", &Augmentation::randaugment}}};

constexpr double kLeastArea = 0.08, kNarrowest = 3.0 / 4, kWidest = 4.0 / 3;
constexpr int kMirrored = 2;  // as an EXIF orientation

// Each photo has as many numbers in an epoch, used or not.
constexpr uint64_t kTries = 10, kDraws = 64;
enum : uint64_t {
  kArea = 0,
  kRatio = kTries,
  kLeft = 2 * kTries,
  kTop,
  kFlip,
  kCut,
  kCutLeft,
  kCutTop,
  kJitterOrder,
  kJitterAmount = kJitterOrder + 3,
  kOperation = kJitterAmount + 4,
  kOperationWay = kOperation + 2,
  kDrawn = kOperationWay + 2
};
static_assert(kDrawn <= kDraws);

int rounded(double x) { return static_cast<int>(std::nearbyint(x)); }

PixelBox at_centre(int width, int height) {
  const double ratio = static_cast<double>(width) / height;
  PixelBox box{.width = width, .height = height};
  if (ratio < kNarrowest) box.height = rounded(width / kNarrowest);
  if (ratio > kWidest) box.width = rounded(height * kWidest);
  box.left = (width - box.width) / 2;
  box.top = (height - box.height) / 2;
  return box;
}

}  // namespace

Augmentation augmentation_named(std::string_view names) {
  Augmentation a;
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    const std::string_view name = names.substr(at, end - at);
    const auto known = std::ranges::find(kNames, name, &decltype(kNames)::value_type::first);
    if (known == kNames.end()) {
      throw Error("unknown augmentation '", name,
                  "'; there are crop, flip, cutout, jitter and randaugment");
    }
    a.*known->second = true;
    at = end + 1;
  }
  return a;
}

std::string name_of(const Augmentation& a) {
  std::string names;
  for (const auto& [name, member] : kNames) {
    if (a.*member) names += (names.empty() ? "" : ",") + std::string(name);
  }
  return names;
}

AugmentationDraw::AugmentationDraw(uint64_t seed, int64_t epoch, uint64_t photo)
    : rng_(seed, "augmentation " + std::to_string(epoch)), first_(photo * kDraws) {}

double AugmentationDraw::uniform(uint64_t draw) const { return rng_.uniform(first_ + draw); }

int AugmentationDraw::below(int n, uint64_t draw) const {
  return static_cast<int>(uniform(draw) * n);
}

PixelBox AugmentationDraw::box(int width, int height) const {
  const double area = static_cast<double>(width) * height;
  for (uint64_t i = 0; i < kTries; ++i) {
    const double part = area * std::lerp(kLeastArea, 1.0, uniform(kArea + i));
    const double ratio =
        std::exp(std::lerp(std::log(kNarrowest), std::log(kWidest), uniform(kRatio + i)));
    const int w = rounded(std::sqrt(part * ratio)), h = rounded(std::sqrt(part / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    return {.left = below(width - w + 1, kLeft),
            .top = below(height - h + 1, kTop),
            .width = w,
            .height = h};
  }
  return at_centre(width, height);
}

bool AugmentationDraw::flips() const { return uniform(kFlip) < 0.5; }

std::optional<PixelBox> AugmentationDraw::cutout(int side, double probability) const {
  if (uniform(kCut) >= probability) return std::nullopt;
  const int edge = std::max(side / 4, 1);
  return PixelBox{.left = below(side - edge + 1, kCutLeft),
                  .top = below(side - edge + 1, kCutTop),
                  .width = edge,
                  .height = edge};
}

int AugmentationDraw::jitter_below(int n, size_t i) const { return below(n, kJitterOrder + i); }
double AugmentationDraw::jitter_uniform(size_t i) const { return uniform(kJitterAmount + i); }
int AugmentationDraw::operation_below(int n, size_t i) const { return below(n, kOperation + i); }
bool AugmentationDraw::operation_turns(size_t i) const { return uniform(kOperationWay + i) < 0.5; }

Image mirrored(Image image) { return upright(std::move(image), kMirrored); }

void cut_out(const PixelBox& box, const Preprocess& p, float* input) {
  const auto side = static_cast<size_t>(p.img_size);
  const bool planar = p.layout == Layout::kNchw;
  const size_t planes = planar ? 3 : 1, pixel = planar ? 1 : 3;
  for (size_t plane = 0; plane < planes; ++plane) {
    for (int y = box.top; y < box.top + box.height; ++y) {
      const size_t row = (plane * side + static_cast<size_t>(y)) * side;
      std::fill_n(input + (row + static_cast<size_t>(box.left)) * pixel,
                  static_cast<size_t>(box.width) * pixel, 0.0F);
    }
  }
}

}  // namespace ndtrain::ndp
