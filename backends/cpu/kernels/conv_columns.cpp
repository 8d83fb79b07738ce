#include "backends/cpu/kernels/conv_columns.h"

#include "backends/cpu/kernels/sizes.h"

namespace ndtrain::cpu {

ConvColumns::ConvColumns(TapStage taps, TapStage::Pair out, int64_t images, int64_t channels,
                         int64_t plane, int64_t columns)
    : taps_(std::move(taps)), out_(out), images_(images), channels_(channels), plane_(plane) {
  const int64_t outputs = out_plane();
  if (outputs == 0) return;
  if (outputs <= columns) {
    const int64_t count = ceil_div(images, std::max<int64_t>(1, columns * 5 / 4 / outputs));
    for (int64_t b = 0; b < count; ++b) {
      const int64_t first = b * images / count, last = (b + 1) * images / count;
      blocks_.push_back({first * outputs, last * outputs, first, last - first, 0, out[0]});
    }
  } else {
    const int64_t panels = col_panels(outputs), count = ceil_div(outputs, columns);
    for (int64_t i = 0; i < images; ++i) {
      for (int64_t b = 0; b < count; ++b) {
        const int64_t begin = b * panels / count * kTileCols;
        const int64_t end = std::min(outputs, (b + 1) * panels / count * kTileCols);
        const int64_t row = begin / out[1], rows = (end - 1) / out[1] + 1 - row;
        blocks_.push_back({i * outputs + begin, i * outputs + end, i, 1, row, rows});
      }
    }
  }
  for (const Block& b : blocks_) {
    most_panels_ = std::max(most_panels_, b.panels());
    most_staged_ = std::max(most_staged_, b.images * taps_.floats(b.rows));
  }
}

int64_t ConvColumns::stage_floats(int64_t channels) const {
  return taps_.direct() ? 0 : channels * most_staged_ + kTileCols;
}

ConvColumns::Stage ConvColumns::stage(const Block& block, int64_t first, int64_t channels,
                                      const float* x, float* to) const {
  const float* from = x + (block.image * channels_ + first) * plane_;
  if (taps_.direct()) {
    const int64_t rest = images_ * channels_ * plane_ - (from - x);
    return {from, channels, plane_, channels_ * plane_, 0, 0, rest};
  }
  const int64_t image_step = taps_.floats(block.rows);
  const int64_t channel_step = image_step * block.images;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < block.images; ++i) {
      taps_.fill(from + (i * channels_ + c) * plane_, block.first_row, block.rows, 0.0f,
                 to + c * channel_step + i * image_step);
    }
  }
  return {to,
          channels,
          channel_step,
          image_step,
          image_step / taps_.phases(),
          block.first_row,
          stage_floats(channels)};
}

// Where outputs are as wide as the staged rows, a run goes on over the rows of an image.
ConvColumns::Panel ConvColumns::panel(const Block& block, int64_t panel, const Stage& stage) const {
  Panel p;
  p.base_ = stage.base;
  p.channel_step_ = stage.channel_step;
  p.phase_step_ = stage.phase_step;
  p.width_ = taps_.width();
  const int64_t begin = block.begin + panel * kTileCols;
  const int64_t end = std::min<int64_t>(block.end, begin + kTileCols);
  const int64_t outputs = out_plane(), whole = taps_.width() == out_[1] ? outputs : out_[1];
  for (int64_t c = begin; c < end;) {
    const int64_t image = c / outputs - block.image, pixel = c % outputs;
    const int64_t length = std::min(end - c, whole - pixel % whole);
    const int64_t y = pixel / out_[1] - stage.first_row;
    p.run_[p.runs_++] = {image * stage.image_step + y * taps_.width() + pixel % out_[1], c - begin,
                         length};
    c += length;
  }
  p.filled_ = end - begin;
  const Panel::Run& last = p.run_[p.runs_ - 1];
  const int64_t last_read =
      (stage.channels - 1) * stage.channel_step + (taps_.phases() - 1) * stage.phase_step +
      taps_.shift_rows() * taps_.width() + (taps_.width() - out_[1]) + last.from + last.length;
  p.exact_ = last_read + kLanes > stage.readable;
  return p;
}

}  // namespace ndtrain::cpu
