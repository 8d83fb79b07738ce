// ConvGradWeight: dw[m,c,t] = sum of dy[n,m,o] * x[n,c,i] over all (n, o, i) that meet tap t.
//
// A matrix product per group: rows are output channels, columns (c, t) pairs, k runs over the
// pixels of all images in order. Each task owns a block of dw and walks the whole batch, so that a
// sum has one order for any number of threads.
#include "backends/cpu/gemm/packed_gemm.h"
#include "backends/cpu/kernels/by_way_of.h"
#include "backends/cpu/kernels/conv_geometry.h"
#include "backends/cpu/kernels/conv_plain.h"
#include "backends/cpu/kernels/plain_loops.h"
#include "backends/cpu/kernels/sizes.h"
#include "backends/cpu/kernels/tap_stage.h"

namespace ndtrain::cpu {
namespace {

constexpr int64_t kColumns = 320;   // (c, t) pairs of a task, about
constexpr int64_t kRowPanels = 40;  // output channels of a task, at most: spilled sums stay in L2
constexpr int64_t kPixels = 384;    // of a step
constexpr int64_t kTasksPerThread = 3;

TapStage::Pair flat(const ConvGeometry::Spatial& s) { return {s[1], s[2]}; }

class GradWeight final : public Kernel {
 public:
  explicit GradWeight(const ConvGeometry& g)
      : g_(g),
        taps_(flat(g.in), flat(g.kernel), flat(g.out), flat(g.stride), flat(g.dilation),
              flat(g.begin)),
        rows_(g.out_channels),
        slots_(threads()) {
    const int64_t most = std::max<int64_t>(1, g.in_channels);
    channels_ = std::clamp<int64_t>(kColumns / g.taps(), 1, most);
    row_chunks_ = std::max<int64_t>(1, ceil_div(rows_.count(), kRowPanels));
    while (slots_ > 1 && channels_ > 1 && tasks() < kTasksPerThread * slots_ &&
           channels_ * g.taps() > kTileCols) {
      channels_ = ceil_div(channels_, 2);
    }
    while (slots_ > 1 && row_chunks_ * 2 < rows_.count() && tasks() < kTasksPerThread * slots_) {
      row_chunks_ *= 2;
    }
    out_rows_ = std::clamp<int64_t>(kPixels / std::max<int64_t>(1, g.out[2]), 1,
                                    std::max<int64_t>(1, g.out[1]));
    const int64_t pixels = out_rows_ * g.out[2];
    const int64_t chunk_rows = ceil_div(rows_.count(), row_chunks_) * kTileRows;
    const int64_t cols = col_panels(channels_ * g.taps()) * kTileCols;
    if (!taps_.direct()) stage_floats_ = whole_lines(channels_ * taps_.floats(out_rows_));
    a_floats_ = whole_lines(chunk_rows * pixels);
    b_floats_ = whole_lines(pixels * cols);
    per_slot_ = stage_floats_ + a_floats_ + b_floats_ + whole_lines(chunk_rows * cols);
    workspace_bytes = static_cast<size_t>(slots_ * per_slot_) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    if (g_.images == 0 || g_.out_plane() == 0) {
      std::fill_n(as<float>(out[0]), g_.all_out() * g_.terms(), 0.0f);
      return;
    }
    parallel_tasks(tasks(), slots_, [&](int64_t task, int slot) {
      run_task(task, as<float>(in[0]), as<float>(in[1]), as<float>(out[0]),
               as<float>(workspace) + slot * per_slot_);
    });
  }

 private:
  int64_t channel_chunks() const { return ceil_div(g_.in_channels, channels_); }
  int64_t tasks() const { return g_.groups * channel_chunks() * row_chunks_; }

  void run_task(int64_t task, const float* x, const float* dy, float* dw, float* scratch) const {
    const int64_t chunk = task % row_chunks_,
                  c0 = task / row_chunks_ % channel_chunks() * channels_;
    const int64_t group = task / row_chunks_ / channel_chunks();
    const int64_t c1 = std::min(g_.in_channels, c0 + channels_), cols = (c1 - c0) * g_.taps();
    const int64_t m0 = group * g_.out_channels, plane = g_.out_plane();
    const int64_t first = chunk * rows_.count() / row_chunks_;
    const int64_t last = (chunk + 1) * rows_.count() / row_chunks_;
    const int64_t row = rows_.begin(first);
    const RowPanels rows(rows_.begin(last) - row);
    float* const a = scratch + stage_floats_;
    float* const b = a + a_floats_;
    const GemmBlock block{rows, 0, rows.count(), 0, cols, b + b_floats_};
    const Output output{dw + (m0 + row) * g_.terms() + c0 * g_.taps(), cols, 0, g_.terms()};
    for (int64_t image = 0; image < g_.images; ++image) {
      const float* dy_from = dy + (image * g_.all_out() + m0 + row) * plane;
      const float* x_from = x + (image * g_.all_in() + group * g_.in_channels + c0) * g_.in_plane();
      for (int64_t y = 0; y < g_.out[1]; y += out_rows_) {
        const int64_t n = std::min(out_rows_, g_.out[1] - y), pixels = n * g_.out[2];
        pack_rows(dy_from + y * g_.out[2], plane, 1, pixels, rows, 0, rows.count(), a);
        pack_pixels(x_from, y, n, c1 - c0, scratch, b);
        const bool begins = image == 0 && y == 0;
        const bool ends = image + 1 == g_.images && y + n == g_.out[1];
        multiply(block, {a, pixels, 0, pixels, b, pixels * kTileCols, begins, ends}, output, {});
      }
    }
  }

  // Panels of [pixel][kTileCols]: column (c, t) holds what tap t of the outputs in rows [y, y + n)
  // reads.
  void pack_pixels(const float* x, int64_t y, int64_t n, int64_t channels, float* stage,
                   float* to) const {
    const int64_t floats = taps_.floats(n), pixels = n * g_.out[2], taps = g_.taps();
    for (int64_t c = 0; !taps_.direct() && c < channels; ++c) {
      taps_.fill(x + c * g_.in_plane(), y, n, 0.0f, stage + c * floats);
    }
    const int64_t cols = channels * taps, all = col_panels(cols) * kTileCols;
    for (int64_t col = 0; col < all; ++col) {
      float* at = to + col / kTileCols * pixels * kTileCols + col % kTileCols;
      if (col >= cols) {
        for (int64_t p = 0; p < pixels; ++p) at[p * kTileCols] = 0;
        continue;
      }
      const int64_t c = col / taps;
      const TapStage::Tap& tap = taps_.taps()[static_cast<size_t>(col % taps)];
      const float* from = taps_.direct() ? x + c * g_.in_plane() + y * taps_.width()
                                         : stage + c * floats + tap.phase * floats / taps_.phases();
      from += tap.row * taps_.width() + tap.col;
      for (int64_t r = 0; r < n; ++r, from += taps_.width()) {
        for (int64_t i = 0; i < g_.out[2]; ++i, at += kTileCols) *at = from[i];
      }
    }
  }

  ConvGeometry g_;
  TapStage taps_;
  RowPanels rows_;
  int slots_;
  int64_t channels_ = 1, row_chunks_ = 1, out_rows_ = 1;  // of a task, per group, of a step
  int64_t stage_floats_ = 0, a_floats_ = 0, b_floats_ = 0, per_slot_ = 0;
};

template <typename T>
std::unique_ptr<Kernel> plain_gradient(const ConvGeometry& g) {
  return kernel([g](const void* const* in, void* const* out, void*) {
    conv_plain_grad_weight<T>(g, as<T>(in[0]), as<T>(in[1]), as<T>(out[0]));
  });
}

std::unique_ptr<Kernel> make_conv_grad_weight(const Node& node) {
  if (is_half(node.in(0).dtype)) return by_way_of_f32(node, make_conv_grad_weight);
  const ConvGeometry g = conv_geometry(node, node.in(0), node.out(), node.in(1));
  if (node.in(0).dtype != node.in(1).dtype) unsupported("mixed dtypes");
  if (node.in(0).dtype == NDT_F64) {
    say_plain_loops(node);
    return plain_gradient<double>(g);
  }
  if (node.in(0).dtype != NDT_F32) unsupported("no such dtype");
  if (!g.flat()) return plain_gradient<float>(g);
  return std::make_unique<GradWeight>(g);
}

const Registered registered{{"ConvGradWeight", make_conv_grad_weight}};

}  // namespace
}  // namespace ndtrain::cpu
