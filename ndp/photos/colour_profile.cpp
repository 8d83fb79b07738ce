#include <lcms2.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "ndp/photos/codec.h"

namespace ndtrain::ndp::codec {
namespace {

struct CloseProfile {
  void operator()(void* p) const { cmsCloseProfile(p); }
};
struct DeleteTransform {
  void operator()(void* t) const { cmsDeleteTransform(t); }
};
using Profile = std::unique_ptr<void, CloseProfile>;
using Transform = std::unique_ptr<void, DeleteTransform>;

// Many profiles are called sRGB, and no two have the same tables. One is sRGB's when it moves no
// colour of a grid by more than this; Adobe RGB and Display P3 move some by more than forty.
constexpr int kSrgbLevels = 2;

bool moves_colours(cmsHTRANSFORM transform) {
  constexpr int kStep = 15, kSteps = 18;
  std::vector<uint8_t> from, to(size_t{3} * kSteps * kSteps * kSteps);
  from.reserve(to.size());
  for (int r = 0; r < kSteps; ++r) {
    for (int g = 0; g < kSteps; ++g) {
      for (int b = 0; b < kSteps; ++b) {
        for (const int v : {r, g, b}) from.push_back(static_cast<uint8_t>(kStep * v));
      }
    }
  }
  cmsDoTransform(transform, from.data(), to.data(), kSteps * kSteps * kSteps);
  for (size_t i = 0; i < to.size(); ++i) {
    if (std::abs(int{from[i]} - int{to[i]}) > kSrgbLevels) return true;
  }
  return false;
}

// What to do with pixels of one profile.
class ToSrgb {
 public:
  ToSrgb() = default;
  explicit ToSrgb(std::span<const uint8_t> icc) : icc_(icc.begin(), icc.end()) {
    const Profile from(
        cmsOpenProfileFromMem(icc_.data(), static_cast<cmsUInt32Number>(icc.size())));
    broken_ = from == nullptr;
    if (broken_ || cmsGetColorSpace(from.get()) != cmsSigRgbData) return;
    const Profile to(cmsCreate_sRGBProfile());
    transform_.reset(
        cmsCreateTransform(from.get(), TYPE_RGB_8, to.get(), TYPE_RGB_8, INTENT_PERCEPTUAL, 0));
    broken_ = transform_ == nullptr;
    if (!broken_ && !moves_colours(transform_.get())) transform_.reset();
  }

  bool is_of(std::span<const uint8_t> icc) const { return std::ranges::equal(icc, icc_); }
  bool broken() const { return broken_; }
  void apply(Image& image) const {
    if (transform_ == nullptr) return;
    for (int y = 0; y < image.height; ++y) {
      cmsDoTransform(transform_.get(), image.row(y), image.row(y),
                     static_cast<cmsUInt32Number>(image.width));
    }
  }

 private:
  std::vector<uint8_t> icc_;
  Transform transform_;
  bool broken_ = false;
};

}  // namespace

// Photos of one camera have one profile, so that a thread keeps its last.
void to_srgb(std::span<const uint8_t> icc, Decoded& photo) {
  if (icc.empty()) return;
  thread_local ToSrgb last;
  if (!last.is_of(icc)) last = ToSrgb(icc);
  photo.warnings += last.broken();
  last.apply(photo.image);
}

std::string colour_library() {
  const int v = cmsGetEncodedCMMversion();
  return "lcms " + std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
}

}  // namespace ndtrain::ndp::codec
