#include "backends/cpu/kernels/conv_gemm.h"

#include "backends/cpu/kernels/sizes.h"

namespace ndtrain::cpu {
namespace {

constexpr int64_t kColumns = 320;  // about as many columns in a block: the packed ones stay in L2
constexpr int64_t kStep = 384;     // about as many products between spills: a row panel stays in L1
constexpr int64_t kRowGroup = 8;   // row panels whose spilled sums stay in L2
constexpr int64_t kPanelsAtOnce = 8;
constexpr int64_t kSlack = kLanes;  // after a panel: what reading its last row may spoil

int64_t panel_floats(int64_t k) { return k * kTileCols + kSlack; }

TapStage::Pair flat(const ConvGeometry::Spatial& s) { return {s[1], s[2]}; }

TapStage taps_of(const ConvGeometry& g) {
  return {flat(g.in), flat(g.kernel), flat(g.out), flat(g.stride), flat(g.dilation), flat(g.begin)};
}

}  // namespace

ConvGemm::ConvGemm(const ConvGeometry& g, int slots)
    : g_(g),
      rows_(g.out_channels),
      columns_(taps_of(g), flat(g.out), g.images, g.all_in(), g.in_plane(), kColumns),
      slots_(std::max(slots, 1)),
      tasks_(g.groups, columns_, rows_, slots_) {
  plan_scratch();
}

void ConvGemm::plan_scratch() {
  const int64_t taps = g_.taps(), k = g_.terms();
  channel_blocks_ = std::clamp<int64_t>(
      ceil_div(g_.in_channels, std::max<int64_t>(1, kStep / std::max<int64_t>(1, taps))), 1,
      std::max<int64_t>(1, g_.in_channels));
  const int64_t chunk_panels = tasks_.most_panels();
  const int64_t channels = ceil_div(g_.in_channels, channel_blocks_);
  pack_whole_ = channel_blocks_ > 1 && k <= std::max(2 * kStep, chunk_panels * kTileRows);
  const int64_t cols = columns_.most_panels() * kTileCols;
  stage_floats_ = whole_lines(columns_.stage_floats(channels));
  packed_columns_floats_ = whole_lines((pack_whole_ ? k : channels * taps) * cols +
                                       channel_blocks_ * columns_.most_panels() * kSlack);
  if (channel_blocks_ > 1) {
    const int64_t spilled = pack_whole_ ? std::min(chunk_panels, kRowGroup) : chunk_panels;
    partial_floats_ = whole_lines(spilled * kTileRows * cols);
  }
}

size_t ConvGemm::packed_floats() const { return static_cast<size_t>(g_.all_out() * g_.terms()); }

size_t ConvGemm::scratch_floats() const {
  return static_cast<size_t>(slots_ * (stage_floats_ + packed_columns_floats_ + partial_floats_));
}

std::string ConvGemm::layout() const {
  std::ostringstream text;
  text << "conv rows " << g_.groups << ' ' << g_.out_channels << ' ' << g_.terms();
  return text.str();
}

void ConvGemm::pack(const float* w, float* packed) const {
  const int64_t k = g_.terms(), panels = rows_.count();
  parallel_for(
      g_.groups * panels, 1 + kGrain / (k * kTileRows + 1), [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) {
          const int64_t group = at / panels * g_.out_channels, p = at % panels;
          pack_rows(w + group * k, k, 1, k, rows_, p, p + 1, packed + (group + rows_.begin(p)) * k);
        }
      });
}

void ConvGemm::run(const float* packed, const float* x, float* y, const Epilogue& epilogue,
                   float* scratch) const {
  const int64_t per_slot = stage_floats_ + packed_columns_floats_ + partial_floats_;
  parallel_tasks(tasks_.count(), slots_, [&](int64_t task, int slot) {
    run_task(tasks_[task], packed, x, y, epilogue, scratch + slot * per_slot);
  });
}

void ConvGemm::run_task(const ConvTasks::Task& task, const float* packed, const float* x, float* y,
                        const Epilogue& epilogue, float* scratch) const {
  const int64_t first = task.first_panel, last = task.last_panel;
  const ConvColumns::Block& columns = columns_.blocks()[static_cast<size_t>(task.block)];
  const int64_t k = g_.terms(), taps = g_.taps(), plane = g_.out_plane();
  const int64_t cols = columns.columns(), panels = columns.panels();
  float* const b = scratch + stage_floats_;
  float* const partial = b + packed_columns_floats_;

  const int64_t row0 = task.group * g_.out_channels;
  const Output output{y + row0 * plane, plane, g_.out_image_step, plane};
  Epilogue e = epilogue;
  if (e.row_bias) e.row_bias += row0;
  if (e.residual) e.residual += row0 * plane;
  const auto multiply_rows = [&](int64_t from, int64_t to, int64_t k0, int64_t k1,
                                 const float* at) {
    const GemmBlock block{rows_, from, to, columns.begin, cols, partial};
    const GemmStep step{packed + row0 * k, k, k0, k1, at, panel_floats(k1 - k0), k0 == 0, k1 == k};
    multiply(block, step, output, e);
  };
  const auto channel = [&](int64_t block) { return block * g_.in_channels / channel_blocks_; };
  const auto packed_before = [&](int64_t block) {
    return panels * (channel(block) * taps * kTileCols + block * kSlack);
  };
  for (int64_t block = 0; block < channel_blocks_; ++block) {
    const int64_t c0 = channel(block), c1 = channel(block + 1);
    float* const at = pack_whole_ ? b + packed_before(block) : b;
    const int64_t first_channel = task.group * g_.in_channels + c0;
    pack_columns(columns, columns_.stage(columns, first_channel, c1 - c0, x, scratch), at);
    if (!pack_whole_) multiply_rows(first, last, c0 * taps, c1 * taps, at);
  }
  for (int64_t p = first; pack_whole_ && p < last; p += kRowGroup) {
    for (int64_t block = 0; block < channel_blocks_; ++block) {
      const int64_t k0 = channel(block) * taps, k1 = channel(block + 1) * taps;
      multiply_rows(p, std::min(last, p + kRowGroup), k0, k1, b + packed_before(block));
    }
  }
}

// Channel by channel, so that pixels are read in long runs; the panels lie in L2.
void ConvGemm::pack_columns(const ConvColumns::Block& block, const ConvColumns::Stage& stage,
                            float* to) const {
  const std::vector<TapStage::Tap>& taps = columns_.taps().taps();
  const int64_t step = panel_floats(stage.channels * g_.taps());
  ConvColumns::Panel panels[kPanelsAtOnce];
  for (int64_t p = 0; p < block.panels(); p += kPanelsAtOnce) {
    const int64_t n = std::min<int64_t>(kPanelsAtOnce, block.panels() - p);
    for (int64_t i = 0; i < n; ++i) panels[i] = columns_.panel(block, p + i, stage);
    float* const first = to + p * step;
    for (int64_t c = 0; c < stage.channels; ++c) {
      for (int64_t i = 0; i < n; ++i) {
        float* at = first + i * step + c * g_.taps() * kTileCols;
        for (const TapStage::Tap& tap : taps) {
          panels[i].read(c, tap, at);
          at += kTileCols;
        }
      }
    }
  }
}

}  // namespace ndtrain::cpu
