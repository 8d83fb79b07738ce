#include "ndp/photos/mixing.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "framework/core/rng.h"

namespace ndtrain::ndp {
namespace {

// Each row has as many numbers in an epoch, used or not.
constexpr uint64_t kMixDraws = 8;
enum : uint64_t { kOther = 0, kWay, kShareU, kShareV, kBoxX, kBoxY };

int64_t below(int64_t n, double u) {
  return std::min(static_cast<int64_t>(u * static_cast<double>(n)), n - 1);
}

double part_outside(const PixelBox& box, int side) {
  const double area = static_cast<double>(side) * side;
  return 1 - static_cast<double>(box.width) * box.height / area;
}

}  // namespace

double beta(double alpha, double u, double v) {
  const double r = std::pow(u, 1 / alpha), c = std::cos(2 * std::numbers::pi * v);
  return (1 + c * std::sqrt(1 - r) / std::sqrt(r + (1 - r) * c * c)) / 2;
}

PixelBox cutmix_box(int side, double share, int x, int y) {
  const int half = static_cast<int>(std::sqrt(1 - share) / 2 * side);
  const int left = std::max(x - half, 0), top = std::max(y - half, 0);
  return {.left = left,
          .top = top,
          .width = std::min(x + half, side) - left,
          .height = std::min(y + half, side) - top};
}

Mix drawn_mix(const Augmentation& a, uint64_t seed, int64_t epoch, int64_t row, int64_t rows,
              int side) {
  const Rng rng(seed, "mixing " + std::to_string(epoch));
  const auto uniform = [&](uint64_t draw) {
    return rng.uniform(static_cast<uint64_t>(row) * kMixDraws + draw);
  };
  Mix mix{.other = below(rows, uniform(kOther))};
  const bool cuts = a.cutmix > 0 && (a.mixup == 0 || uniform(kWay) < 0.5);
  mix.share = beta(cuts ? a.cutmix : a.mixup, uniform(kShareU), uniform(kShareV));
  if (!cuts) return mix;
  mix.box = cutmix_box(side, mix.share, static_cast<int>(below(side, uniform(kBoxX))),
                       static_cast<int>(below(side, uniform(kBoxY))));
  mix.share = part_outside(*mix.box, side);
  return mix;
}

void mix_up(std::span<const float> other, double share, std::span<float> to) {
  const auto own = static_cast<float>(share), rest = static_cast<float>(1 - share);
  for (size_t i = 0; i < to.size(); ++i) to[i] = rest * other[i] + own * to[i];
}

void paste(const PixelBox& box, const Preprocess& p, const float* other, float* to) {
  for_each_run(box, p, [&](size_t at, size_t n) { std::copy_n(other + at, n, to + at); });
}

}  // namespace ndtrain::ndp
