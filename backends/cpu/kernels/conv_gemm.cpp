#include "backends/cpu/kernels/conv_gemm.h"

namespace ndtrain::cpu {
namespace {

constexpr int64_t kColumns = 320;  // about as many columns in a block: the packed ones stay in L2
constexpr int64_t kStep = 384;     // about as many products between spills: a row panel stays in L1
constexpr int64_t kRowGroup = 8;   // row panels whose spilled sums stay in L2
constexpr int64_t kTasksPerThread = 3;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t whole_lines(int64_t floats) { return ceil_div(floats, 16) * 16; }

TapStage::Pair flat(const ConvGeometry::Spatial& s) { return {s[1], s[2]}; }

void copy_run(const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) store(to + i, load(from + i));
}

}  // namespace

ConvGemm::ConvGemm(const ConvGeometry& geometry, int slots)
    : g_(geometry),
      rows_(geometry.out_channels),
      taps_(flat(g_.in), flat(g_.kernel), flat(g_.out), flat(g_.stride), flat(g_.dilation),
            flat(g_.begin)),
      slots_(std::max(slots, 1)) {
  plan_columns();
  plan_scratch(slots_);
}

void ConvGemm::plan_columns() {
  const int64_t plane = g_.out_plane();
  if (plane == 0) return;
  if (plane <= kColumns) {
    const int64_t blocks = ceil_div(g_.images, std::max<int64_t>(1, kColumns * 5 / 4 / plane));
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t first = b * g_.images / blocks, last = (b + 1) * g_.images / blocks;
      columns_.push_back({first * plane, last * plane, first, last - first, 0, g_.out[1]});
    }
    return;
  }
  const int64_t panels = col_panels(plane), blocks = ceil_div(plane, kColumns);
  for (int64_t i = 0; i < g_.images; ++i) {
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t begin = b * panels / blocks * kTileCols;
      const int64_t end = std::min(plane, (b + 1) * panels / blocks * kTileCols);
      const int64_t row = begin / g_.out[2], rows = (end - 1) / g_.out[2] + 1 - row;
      columns_.push_back({i * plane + begin, i * plane + end, i, 1, row, rows});
    }
  }
}

void ConvGemm::plan_scratch(int slots) {
  const int64_t taps = g_.taps(), k = g_.terms();
  channel_blocks_ = std::clamp<int64_t>(
      ceil_div(g_.in_channels, std::max<int64_t>(1, kStep / std::max<int64_t>(1, taps))), 1,
      std::max<int64_t>(1, g_.in_channels));
  const int64_t tasks = g_.groups * static_cast<int64_t>(columns_.size());
  if (slots > 1 && tasks > 0 && tasks < kTasksPerThread * slots) {
    row_chunks_ = std::clamp<int64_t>(ceil_div(kTasksPerThread * slots, tasks), 1,
                                      std::max<int64_t>(1, rows_.count() / 2));
  }
  const int64_t chunk_panels = ceil_div(rows_.count(), row_chunks_);
  const int64_t channels = ceil_div(g_.in_channels, channel_blocks_);
  pack_whole_ = channel_blocks_ > 1 && k <= std::max(2 * kStep, chunk_panels * kTileRows);
  int64_t staged = 0, panels = 0;
  for (const Columns& c : columns_) {
    staged = std::max(staged, c.images * taps_.floats(c.rows));
    panels = std::max(panels, col_panels(c.end - c.begin));
  }
  if (!taps_.direct()) stage_floats_ = whole_lines(channels * staged + kTileCols);
  packed_columns_floats_ =
      whole_lines((pack_whole_ ? k : channels * taps) * panels * kTileCols + kTileCols);
  if (channel_blocks_ > 1) {
    const int64_t spilled = pack_whole_ ? std::min(chunk_panels, kRowGroup) : chunk_panels;
    partial_floats_ = whole_lines(spilled * kTileRows * panels * kTileCols);
  }
}

size_t ConvGemm::packed_floats() const { return static_cast<size_t>(g_.all_out() * g_.terms()); }

size_t ConvGemm::scratch_floats() const {
  return static_cast<size_t>(slots_ * (stage_floats_ + packed_columns_floats_ + partial_floats_));
}

void ConvGemm::pack(const float* w, int64_t m_step, int64_t c_step, int64_t t_step,
                    float* packed) const {
  const int64_t k = g_.terms(), taps = g_.taps();
  const int64_t panels = g_.groups * rows_.count();
  parallel_for(panels, 1 + kGrain / (k * kTileRows + 1), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t group = at / rows_.count(), p = at % rows_.count(), row = rows_.begin(p);
      const int height = rows_.height(p);
      const float* from = w + (group * g_.out_channels + row) * m_step;
      float* to = packed + (group * g_.out_channels + row) * k;
      for (int r = 0; r < height; ++r) {
        for (int64_t c = 0; c < g_.in_channels; ++c) {
          for (int64_t t = 0; t < taps; ++t) {
            to[(c * taps + t) * height + r] = from[r * m_step + c * c_step + t * t_step];
          }
        }
      }
    }
  });
}

void ConvGemm::run(const float* packed, const float* x, float* y, const Epilogue& epilogue,
                   float* scratch) const {
  const int64_t tasks = g_.groups * static_cast<int64_t>(columns_.size()) * row_chunks_;
  const int64_t per_slot = stage_floats_ + packed_columns_floats_ + partial_floats_;
  parallel_tasks(tasks, slots_, [&](int64_t task, int slot) {
    run_task(task, packed, x, y, epilogue, scratch + slot * per_slot);
  });
}

// A task: one group, one block of columns, some of the row panels.
void ConvGemm::run_task(int64_t task, const float* packed, const float* x, float* y,
                        const Epilogue& epilogue, float* scratch) const {
  const int64_t chunk = task % row_chunks_, group = task / row_chunks_ % g_.groups;
  const Columns& columns = columns_[static_cast<size_t>(task / row_chunks_ / g_.groups)];
  const int64_t k = g_.terms(), taps = g_.taps(), plane = g_.out_plane();
  const int64_t first = chunk * rows_.count() / row_chunks_;
  const int64_t last = (chunk + 1) * rows_.count() / row_chunks_;
  const int64_t cols = columns.end - columns.begin, panels = col_panels(cols);
  float* const b = scratch + stage_floats_;
  float* const partial = b + packed_columns_floats_;

  const int64_t row0 = group * g_.out_channels;
  const Output output{y + row0 * plane, plane, g_.all_out() * plane, plane};
  Epilogue e = epilogue;
  if (e.row_bias) e.row_bias += row0;
  if (e.residual) e.residual += row0 * plane;
  const auto multiply_rows = [&](int64_t from, int64_t to, int64_t k0, int64_t k1,
                                 const float* at) {
    const GemmBlock block{rows_, from, to, columns.begin, cols, partial};
    const GemmStep step{packed + row0 * k, k, k0, k1, at, (k1 - k0) * kTileCols, k0 == 0, k1 == k};
    multiply(block, step, output, e);
  };
  const auto channel = [&](int64_t block) { return block * g_.in_channels / channel_blocks_; };
  for (int64_t block = 0; block < channel_blocks_; ++block) {
    const int64_t c0 = channel(block), c1 = channel(block + 1);
    float* const at = pack_whole_ ? b + c0 * taps * panels * kTileCols : b;
    pack_columns(columns, stage(columns, group, c0, c1, x, scratch), c1 - c0, at);
    if (!pack_whole_) multiply_rows(first, last, c0 * taps, c1 * taps, at);
  }
  for (int64_t p = first; pack_whole_ && p < last; p += kRowGroup) {
    for (int64_t block = 0; block < channel_blocks_; ++block) {
      const int64_t k0 = channel(block) * taps, k1 = channel(block + 1) * taps;
      multiply_rows(p, std::min(last, p + kRowGroup), k0, k1, b + k0 * panels * kTileCols);
    }
  }
}

ConvGemm::Stage ConvGemm::stage(const Columns& columns, int64_t group, int64_t c0, int64_t c1,
                                const float* x, float* to) const {
  const int64_t plane = g_.in_plane(), first_channel = group * g_.in_channels + c0;
  const float* from = x + (columns.image * g_.all_in() + first_channel) * plane;
  if (taps_.direct()) {
    const int64_t rest = g_.images * g_.all_in() * plane - (from - x);
    return {from, plane, g_.all_in() * plane, 0, 0, rest};
  }
  const int64_t image_step = taps_.floats(columns.rows);
  const int64_t channel_step = image_step * columns.images;
  for (int64_t c = 0; c < c1 - c0; ++c) {
    for (int64_t i = 0; i < columns.images; ++i) {
      taps_.fill(from + (i * g_.all_in() + c) * plane, columns.first_row, columns.rows, 0.0f,
                 to + c * channel_step + i * image_step);
    }
  }
  return {to,           channel_step, image_step, image_step / taps_.phases(), columns.first_row,
          stage_floats_};
}

// The contiguous runs that make up one panel's columns; where outputs are as wide as the staged
// rows, a run goes on over the rows of an image.
int64_t ConvGemm::runs_of(const Columns& columns, int64_t panel, const Stage& stage,
                          Run* runs) const {
  const int64_t begin = columns.begin + panel * kTileCols;
  const int64_t end = std::min<int64_t>(columns.end, begin + kTileCols);
  const int64_t plane = g_.out_plane(), width = g_.out[2];
  const int64_t whole = taps_.width() == width ? plane : width;
  int64_t n = 0;
  for (int64_t c = begin; c < end;) {
    const int64_t image = c / plane - columns.image, pixel = c % plane;
    const int64_t length = std::min(end - c, whole - pixel % whole);
    const int64_t y = pixel / width - stage.first_row;
    runs[n++] = {image * stage.image_step + y * taps_.width() + pixel % width, c - begin, length};
    c += length;
  }
  return n;
}

void ConvGemm::pack_columns(const Columns& columns, const Stage& stage, int64_t channels,
                            float* to) const {
  Run runs[kTileCols];
  const int64_t panels = col_panels(columns.end - columns.begin);
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t n = runs_of(columns, p, stage, runs);
    const int64_t filled = runs[n - 1].to + runs[n - 1].length;
    const int64_t last_read = (channels - 1) * stage.channel_step +
                              (taps_.phases() - 1) * stage.phase_step +
                              taps_.shift_rows() * taps_.width() + (taps_.width() - g_.out[2]) +
                              runs[n - 1].from + runs[n - 1].length;
    // Whole vectors may be read and written past a run: what they spoil is written later.
    const bool exact = last_read + kLanes > stage.readable;
    for (int64_t c = 0; c < channels; ++c) {
      for (const TapStage::Tap& tap : taps_.taps()) {
        const float* from = stage.base + c * stage.channel_step + tap.phase * stage.phase_step +
                            tap.row * taps_.width() + tap.col;
        if (n == 1 && filled == kTileCols) {
          store(to, load(from + runs[0].from));
          store(to + kLanes, load(from + runs[0].from + kLanes));
        } else if (exact) {
          for (int64_t r = 0; r < n; ++r) {
            std::copy_n(from + runs[r].from, runs[r].length, to + runs[r].to);
          }
          std::fill(to + filled, to + kTileCols, 0.0f);
        } else {
          for (int64_t r = 0; r < n; ++r) {
            copy_run(from + runs[r].from, to + runs[r].to, runs[r].length);
          }
          std::fill(to + filled, to + kTileCols, 0.0f);
        }
        to += kTileCols;
      }
    }
  }
}

}  // namespace ndtrain::cpu
