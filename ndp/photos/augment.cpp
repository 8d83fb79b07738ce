#include "ndp/photos/augment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
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
constexpr std::array<std::pair<std::string_view, double Augmentation::*>, 2> kMixes = {
    {{"mixup", &Augmentation::mixup}, {"cutmix", &Augmentation::cutmix}}};

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

double alpha_of(std::string_view name, std::string_view text) {
  double alpha = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), alpha);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && alpha > 0 && std::isfinite(alpha)) return alpha;
  throw Error(name, text.empty() ? "" : "=", text, ": say the alpha, above 0, of the Beta(alpha, ",
              "alpha) that shares are drawn from, as ", name, name == "mixup" ? "=0.2" : "=1");
}

}  // namespace

Augmentation augmentation_named(std::string_view names) {
  Augmentation a;
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    const std::string_view part = names.substr(at, end - at);
    const std::string_view name = part.substr(0, part.find('='));
    const auto known = std::ranges::find(kNames, part, &decltype(kNames)::value_type::first);
    const auto mix = std::ranges::find(kMixes, name, &decltype(kMixes)::value_type::first);
    if (known != kNames.end()) {
      a.*known->second = true;
    } else if (mix != kMixes.end()) {
      a.*mix->second = alpha_of(name, part.substr(std::min(name.size() + 1, part.size())));
    } else {
      throw Error("unknown augmentation '", part,
                  "'; there are crop, flip, cutout, jitter, randaugment, mixup=ALPHA and "
                  "cutmix=ALPHA");
    }
    at = end + 1;
  }
  return a;
}

std::string name_of(const Augmentation& a) {
  std::string names;
  for (const auto& [name, member] : kNames) {
    if (a.*member) names += (names.empty() ? "" : ",") + std::string(name);
  }
  for (const auto& [name, member] : kMixes) {
    if (a.*member > 0) names += fmt::format("{}{}={}", names.empty() ? "" : ",", name, a.*member);
  }
  return names;
}

void check_augmentation(const Augmentation& a, int64_t views, bool frozen) {
  if (!frozen) {
    if (views == 0) return;
    throw Error("--views ", views,
                ": nothing is frozen, and each epoch sees another view of a photo; leave it away");
  }
  const bool changes = a.crop || a.flip || a.jitter || a.randaugment;
  if (views > 0 && !changes) {
    throw Error("--views ", views,
                ": all of them would be alike; say how photos are changed with --augment crop, "
                "flip, jitter or randaugment");
  }
  if (!a.cutout && a.cutmix == 0 && (!changes || views > 0)) return;
  throw Error("--augment ", name_of(a),
              ": a part of the model is frozen, and its features are computed from each photo "
              "once; train all of it with ndtrain train --freeze none, mix features with --augment "
              "mixup=0.2, or keep views of each photo with --augment crop,flip --views 4");
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

void for_each_run(const PixelBox& box, const Preprocess& p,
                  const std::function<void(size_t at, size_t n)>& f) {
  const auto side = static_cast<size_t>(p.img_size);
  const bool planar = p.layout == Layout::kNchw;
  const size_t planes = planar ? 3 : 1, pixel = planar ? 1 : 3;
  for (size_t plane = 0; plane < planes; ++plane) {
    for (int y = box.top; y < box.top + box.height; ++y) {
      const size_t row = (plane * side + static_cast<size_t>(y)) * side;
      f((row + static_cast<size_t>(box.left)) * pixel, static_cast<size_t>(box.width) * pixel);
    }
  }
}

void cut_out(const PixelBox& box, const Preprocess& p, float* input) {
  for_each_run(box, p, [&](size_t at, size_t n) { std::fill_n(input + at, n, 0.0F); });
}

}  // namespace ndtrain::ndp
