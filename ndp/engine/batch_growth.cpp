#include "ndp/engine/batch_growth.h"

#include <algorithm>

namespace ndtrain::ndp {
namespace {

constexpr int kMeasured = 3;    // batches of each size
constexpr double kGain = 0.03;  // of a photo's time, or a size is not worth its memory

}  // namespace

BatchGrowth::BatchGrowth(int64_t first, int64_t most)
    : most_(most), batch_(std::min(first, most)), settled_(first >= most) {}

void BatchGrowth::took(int64_t photos, double seconds) {
  if (settled_ || photos != batch_) return;
  const double photo_s = seconds / static_cast<double>(photos);
  if (++seen_ == 1) return;
  photo_s_ = seen_ == 2 ? photo_s : std::min(photo_s_, photo_s);
  if (seen_ > kMeasured) judge();
}

void BatchGrowth::judge() {
  const int64_t now = batch_;
  if (smaller_ > 0 && photo_s_ > (1 - kGain) * smaller_photo_s_) {
    settled_ = true;
    batch_ = smaller_;
    return;
  }
  settled_ = now == most_;
  smaller_ = now;
  smaller_photo_s_ = photo_s_;
  seen_ = 0;
  batch_ = std::min(2 * now, most_);
}

}  // namespace ndtrain::ndp
