#include "backends/cpu/kernels/conv_winograd.h"

#include <array>

#include "backends/cpu/kernels/sizes.h"

namespace ndtrain::cpu {
namespace {

constexpr int64_t kPositions = 16;           // of a transformed tile, 4x4
constexpr int64_t kFloatsInCache = 1 << 18;  // transformed pixels, and products: each in half of L2
constexpr int64_t kFewestTiles = 64;         // of a block: weights are read once per block
constexpr int64_t kStagedChannels = 16;
constexpr int64_t kStep = 384;  // channels between spills
constexpr int64_t kFewestChannels = 12;

TapStage::Pair tiles_of(const ConvGeometry& g) {
  return {ceil_div(g.out[1], 2), ceil_div(g.out[2], 2)};
}

// A tile reads 4x4 pixels, its neighbour's begin two further.
TapStage taps_of(const ConvGeometry& g) {
  return {{g.in[1], g.in[2]}, {4, 4}, tiles_of(g), {2, 2}, {1, 1}, {g.begin[1], g.begin[2]}};
}

int64_t tiles_per_block(const ConvGeometry& g) {
  return std::max(kFewestTiles, kFloatsInCache / (kPositions * g.in_channels));
}

// G w Gt.
std::array<float, kPositions> transformed(const float* w) {
  double half[4][3];
  for (int x = 0; x < 3; ++x) {
    const double a = w[x], b = w[3 + x], c = w[6 + x];
    half[0][x] = a;
    half[1][x] = (a + b + c) / 2;
    half[2][x] = (a - b + c) / 2;
    half[3][x] = c;
  }
  std::array<float, kPositions> u;
  for (size_t y = 0; y < 4; ++y) {
    const double a = half[y][0], b = half[y][1], c = half[y][2];
    u[y * 4] = static_cast<float>(a);
    u[y * 4 + 1] = static_cast<float>((a + b + c) / 2);
    u[y * 4 + 2] = static_cast<float>((a - b + c) / 2);
    u[y * 4 + 3] = static_cast<float>(c);
  }
  return u;
}

// Bt d of one row or column of four.
void pixels(const Vec& d0, const Vec& d1, const Vec& d2, const Vec& d3, Vec* v, int step) {
  v[0] = d0 - d2;
  v[step] = d1 + d2;
  v[2 * step] = d2 - d1;
  v[3 * step] = d1 - d3;
}

// One vector of tiles: position p of d at d[p * kTileCols], of Bt d B at to[p * position_step].
void transform_tiles(const float* d, float* to, int64_t position_step) {
  Vec rows[16], v[16];
#pragma GCC unroll 4
  for (int x = 0; x < 4; ++x) {
    pixels(load(d + x * kTileCols), load(d + (4 + x) * kTileCols), load(d + (8 + x) * kTileCols),
           load(d + (12 + x) * kTileCols), rows + x, 4);
  }
#pragma GCC unroll 4
  for (int y = 0; y < 4; ++y) {
    pixels(rows[y * 4], rows[y * 4 + 1], rows[y * 4 + 2], rows[y * 4 + 3], v + y * 4, 1);
  }
#pragma GCC unroll 16
  for (int p = 0; p < 16; ++p) store(to + p * position_step, v[p]);
}

// One vector of tiles of products m; the two rows of y have their columns interleaved.
void outputs(const float* m, int64_t position_step, float* row0, float* row1) {
  Vec top[4], bottom[4];
#pragma GCC unroll 4
  for (int x = 0; x < 4; ++x) {
    const Vec m0 = load(m + x * position_step), m1 = load(m + (4 + x) * position_step);
    const Vec m2 = load(m + (8 + x) * position_step), m3 = load(m + (12 + x) * position_step);
    top[x] = m0 + m1 + m2;
    bottom[x] = m1 - m2 - m3;
  }
  store_interleaved(row0, top[0] + top[1] + top[2], top[1] - top[2] - top[3]);
  store_interleaved(row1, bottom[0] + bottom[1] + bottom[2], bottom[1] - bottom[2] - bottom[3]);
}

}  // namespace

bool ConvWinograd::fits(const ConvGeometry& g) {
  using Spatial = ConvGeometry::Spatial;
  return g.flat() && g.kernel == Spatial{1, 3, 3} && g.stride == Spatial{1, 1, 1} &&
         g.dilation == Spatial{1, 1, 1} && g.in_channels >= kFewestChannels &&
         g.out_channels >= kFewestChannels;
}

ConvWinograd::ConvWinograd(const ConvGeometry& g, int slots)
    : g_(g),
      rows_(g.out_channels),
      tiles_(taps_of(g), tiles_of(g), g.images, g.all_in(), g.in_plane(), tiles_per_block(g)),
      slots_(std::max(slots, 1)),
      tasks_(g.groups, tiles_, rows_, slots_) {
  const int64_t tiles = std::max<int64_t>(1, tiles_.most_panels()) * kTileCols;
  row_group_ = std::clamp<int64_t>(kFloatsInCache / (kPositions * tiles * kTileRows), 1,
                                   tasks_.most_panels());
  stage_floats_ = whole_lines(tiles_.stage_floats(std::min(kStagedChannels, g.in_channels)));
  pixels_floats_ = whole_lines(kPositions * g.in_channels * tiles);
  products_floats_ = whole_lines(kPositions * row_group_ * kTileRows * tiles);
}

std::string ConvWinograd::layout() const {
  std::ostringstream text;
  text << "winograd rows " << g_.groups << ' ' << g_.out_channels << ' ' << g_.in_channels;
  return text.str();
}

size_t ConvWinograd::packed_floats() const {
  return static_cast<size_t>(g_.all_out() * g_.in_channels * kPositions);
}

size_t ConvWinograd::scratch_floats() const {
  return static_cast<size_t>(slots_ * (stage_floats_ + pixels_floats_ + products_floats_));
}

// Per group and position the row panels of one matrix product.
void ConvWinograd::pack(const float* w, float* packed) const {
  const int64_t channels = g_.in_channels, position_step = g_.out_channels * channels;
  parallel_for(g_.groups * rows_.count(), 1 + kGrain / (channels * kTileRows * kPositions),
               [&](int64_t begin, int64_t end) {
                 for (int64_t at = begin; at < end; ++at) {
                   const int64_t group = at / rows_.count(), p = at % rows_.count(),
                                 row = rows_.begin(p);
                   const int height = rows_.height(p);
                   const float* from = w + (group * g_.out_channels + row) * channels * 9;
                   float* to = packed + group * kPositions * position_step + row * channels;
                   for (int r = 0; r < height; ++r) {
                     for (int64_t c = 0; c < channels; ++c) {
                       const auto u = transformed(from + (r * channels + c) * 9);
                       for (size_t i = 0; i < u.size(); ++i) {
                         to[static_cast<int64_t>(i) * position_step + c * height + r] = u[i];
                       }
                     }
                   }
                 }
               });
}

void ConvWinograd::run(const float* packed, const float* x, float* y, const Epilogue& epilogue,
                       float* scratch) const {
  const int64_t per_slot = stage_floats_ + pixels_floats_ + products_floats_;
  parallel_tasks(tasks_.count(), slots_, [&](int64_t task, int slot) {
    run_task(tasks_[task], packed, x, y, epilogue, scratch + slot * per_slot);
  });
}

void ConvWinograd::run_task(const ConvTasks::Task& task, const float* packed, const float* x,
                            float* y, const Epilogue& epilogue, float* scratch) const {
  const int64_t first = task.first_panel, last = task.last_panel;
  const Block& block = tiles_.blocks()[static_cast<size_t>(task.block)];
  const int64_t channels = g_.in_channels, panels = block.panels();
  const int64_t position_floats = panels * channels * kTileCols;
  float* const transformed = scratch + stage_floats_;
  float* const products = transformed + pixels_floats_;
  transform_pixels(block, task.group, x, scratch, transformed);

  const int64_t row0 = task.group * g_.out_channels;
  Epilogue e = epilogue;
  if (e.row_bias) e.row_bias += row0;
  if (e.residual) e.residual += row0 * g_.out_plane();
  packed += row0 * channels * kPositions;
  const int64_t steps = ceil_div(channels, kStep);
  for (int64_t p = first; p < last; p += row_group_) {
    const int64_t end = std::min(last, p + row_group_);
    GemmBlock product{rows_, p, end, 0, block.columns(), products};
    for (int64_t position = 0; position < kPositions; ++position) {
      for (int64_t step = 0; step < steps; ++step) {
        const int64_t k0 = step * channels / steps, k1 = (step + 1) * channels / steps;
        multiply(product,
                 {packed + position * g_.out_channels * channels, channels, k0, k1,
                  transformed + position * position_floats + k0 * kTileCols, channels * kTileCols,
                  step == 0, false},
                 {}, {});
      }
      product.partial += product.partial_floats();
    }
    transform_products(block, p, end, products, product.partial_floats(), y + row0 * g_.out_plane(),
                       e);
  }
}

void ConvWinograd::transform_pixels(const Block& block, int64_t group, const float* x, float* stage,
                                    float* to) const {
  alignas(64) float read[kPositions * kTileCols + kLanes];
  const int64_t channels = g_.in_channels, panel_floats = channels * kTileCols;
  const int64_t position_step = block.panels() * panel_floats;
  for (int64_t c0 = 0; c0 < channels; c0 += kStagedChannels) {
    const int64_t n = std::min(kStagedChannels, channels - c0);
    const auto staged = tiles_.stage(block, group * channels + c0, n, x, stage);
    for (int64_t p = 0; p < block.panels(); ++p) {
      const ConvColumns::Panel panel = tiles_.panel(block, p, staged);
      float* at = to + p * panel_floats + c0 * kTileCols;
      for (int64_t c = 0; c < n; ++c, at += kTileCols) {
        float* tap_at = read;
        for (const TapStage::Tap& tap : tiles_.taps().taps()) {
          panel.read(c, tap, tap_at);
          tap_at += kTileCols;
        }
        transform_tiles(read, at, position_step);
        transform_tiles(read + kLanes, at + kLanes, position_step);
      }
    }
  }
}

void ConvWinograd::transform_products(const Block& block, int64_t first, int64_t last,
                                      const float* products, int64_t position_step, float* y,
                                      const Epilogue& e) const {
  alignas(64) float row[2][2 * kTileCols];
  const int64_t tiles = tiles_.out_plane(), width = (g_.out[2] + 1) / 2, plane = g_.out_plane();
  for (int64_t p = first; p < last; ++p) {
    for (int64_t panel = 0; panel < block.panels(); ++panel) {
      const int64_t begin = block.begin + panel * kTileCols;
      const int64_t end = std::min<int64_t>(block.end, begin + kTileCols);
      for (int64_t r = rows_.begin(p); r < rows_.begin(p + 1); ++r, products += kTileCols) {
        for (int v = 0; v < kTileCols; v += kLanes) {
          outputs(products + v, position_step, row[0] + 2 * v, row[1] + 2 * v);
        }
        for (int64_t t = begin; t < end;) {
          const int64_t tile_y = t % tiles / width, tile_x = t % width,
                        n = std::min(end - t, width - tile_x);
          const int64_t columns = std::min(2 * n, g_.out[2] - 2 * tile_x);
          int64_t place =
              t / tiles * g_.out_image_step + r * plane + 2 * tile_y * g_.out[2] + 2 * tile_x;
          for (int64_t i = 0; i < 2 && 2 * tile_y + i < g_.out[1]; ++i, place += g_.out[2]) {
            finish_row(row[i] + 2 * (t - begin), columns, r, place, e, y);
          }
          t += n;
        }
      }
    }
  }
}

}  // namespace ndtrain::cpu
