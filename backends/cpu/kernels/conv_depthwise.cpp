#include "backends/cpu/kernels/conv_depthwise.h"

namespace ndtrain::cpu {
namespace {

constexpr int kVectors = 4;  // sums in flight
constexpr int64_t kSlack = kVectors * kLanes;
constexpr int64_t kPixelsPerTask = 8192;

TapStage::Pair flat(const ConvGeometry::Spatial& s) { return {s[1], s[2]}; }

}  // namespace

ConvDepthwise::ConvDepthwise(const ConvGeometry& geometry, int slots)
    : g_(geometry),
      taps_(flat(g_.in), flat(g_.kernel), flat(g_.out), flat(g_.stride), flat(g_.dilation),
            flat(g_.begin)),
      stage_floats_((taps_.floats(g_.out[1]) + kSlack) / 16 * 16 + 16),
      sums_floats_((g_.out[1] * taps_.width() + kSlack) / 16 * 16 + 16),
      slots_(std::max(slots, 1)) {}

size_t ConvDepthwise::scratch_floats() const {
  return static_cast<size_t>(slots_ * (stage_floats_ + sums_floats_));
}

void ConvDepthwise::run_plane(const float* stage, const float* w, float* sums) const {
  const int64_t n = (g_.out[1] - 1) * taps_.width() + g_.out[2];
  const int64_t phase_step = taps_.floats(g_.out[1]) / taps_.phases();
  for (int64_t i = 0; i < n; i += kSlack) {
    Vec sum[kVectors] = {};
    const float* weight = w;
    for (const TapStage::Tap& tap : taps_.taps()) {
      const float* from = stage + tap.phase * phase_step + tap.row * taps_.width() + tap.col + i;
      const Vec factor = splat(*weight++);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[v] += factor * load(from + v * kLanes);
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store(sums + i + v * kLanes, sum[v]);
  }
}

void ConvDepthwise::run(const float* w, const float* x, float* y, const Epilogue& epilogue,
                        float* scratch) const {
  const int64_t plane = g_.out_plane(), channels = g_.all_out();
  if (plane == 0) return;
  const int64_t planes = g_.images * channels;
  const int64_t group = std::max<int64_t>(1, kPixelsPerTask / plane);
  parallel_tasks((planes + group - 1) / group, slots_, [&](int64_t task, int slot) {
    float* const stage = scratch + slot * (stage_floats_ + sums_floats_);
    float* const sums = stage + stage_floats_;
    for (int64_t p = task * group; p < std::min(planes, (task + 1) * group); ++p) {
      const int64_t image = p / channels, m = p % channels;
      const float* from = x + (image * g_.all_in() + m / g_.out_channels) * g_.in_plane();
      taps_.fill(from, 0, g_.out[1], 0.0f, stage);
      run_plane(stage, w + m * g_.taps(), sums);
      for (int64_t r = 0; r < g_.out[1]; ++r) {
        const int64_t place = image * g_.out_image_step + m * plane + r * g_.out[2];
        finish_row(sums + r * taps_.width(), g_.out[2], m, place, epilogue, y);
      }
    }
  });
}

}  // namespace ndtrain::cpu
