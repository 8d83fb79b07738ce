// Tiles are taken in runs, one after the other; in each the transforms are spread over the threads
// by channels and the sums by the 36 positions, so that every sum runs over the tiles in their
// order.
#include "backends/onednn/winograd_grad.h"

#include "backends/onednn/winograd.h"

namespace ndtrain::onednn {
namespace {

constexpr int64_t kTiles = 128;  // of a run: for so many the sums are read and written once
constexpr int64_t kBlocks = 4;   // of results whose sums are a task

// [out, in, 3, 3], channels of images in blocks.
Desc blocked(const Dims& dims) {
  using Tag = dnnl::memory::format_tag;
  return {dims, dnnl::memory::data_type::f32, block() == 16 ? Tag::aBcd16b : Tag::aBcd8b};
}

class GradWeight final : public Kernel {
 public:
  explicit GradWeight(const AskedConv& a)
      : loops_(winograd_loops(a.x.dtype)),
        s_(winograd_shape(a)),
        x_step_(image_step(a.x, a.from)),
        dy_step_(image_step(a.y, a.to)),
        tiles_(a.x.dims[0] * s_.tiles),
        slots_(threads()) {
    const Desc found = blocked(a.shape.weights());
    reorder_ = reorder(found, plain_desc(a.shape.weights(), a.weights_dtype));
    const int64_t most = std::min(tiles_, kTiles), b = block();
    v_ = add(kWinogradPositions * winograd_step(s_.in_blocks * most));
    w_ = add(kWinogradPositions * winograd_step(s_.out_blocks * most));
    g_ = add(kWinogradPositions * g_step());
    dw_ = add(s_.out_blocks * s_.in_blocks * b * b * 9);
    scratch_ = workspace_bytes;
    workspace_bytes += reorder_->scratch();
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    const auto part = [&](size_t at) {
      return reinterpret_cast<float*>(static_cast<char*>(workspace) + at);
    };
    for (int64_t first = 0; first < tiles_; first += kTiles) {
      const WinogradTiles tiles{first, std::min(kTiles, tiles_ - first)};
      transform(in, tiles, part(v_), part(w_));
      accumulate(tiles, part(w_), part(v_), part(g_));
    }
    const int64_t of_block = s_.in_blocks * block() * block();
    parallel_tasks(s_.out_blocks, slots_, [&](int64_t o, int) {
      loops_.filter_gradients(part(g_) + o * of_block, g_step(), s_.in_blocks,
                              part(dw_) + o * of_block * 9);
    });
    void* const ends[] = {part(dw_), out[0]};
    reorder_->run(ends, part(scratch_));
  }

 private:
  size_t add(int64_t floats) {
    const size_t at = workspace_bytes;
    workspace_bytes += whole_lines(static_cast<size_t>(floats) * sizeof(float));
    return at;
  }
  int64_t g_step() const { return winograd_step(s_.out_blocks * s_.in_blocks * block()); }

  void transform(const void* const* in, WinogradTiles tiles, float* v, float* w) const {
    parallel_tasks(s_.in_blocks + s_.out_blocks, slots_, [&](int64_t task, int) {
      if (task < s_.in_blocks) {
        loops_.images(s_, {in[0], x_step_}, tiles, task, task + 1, v,
                      winograd_step(s_.in_blocks * tiles.count));
      } else {
        const int64_t o = task - s_.in_blocks;
        loops_.result_gradients(s_, {in[1], dy_step_}, tiles, o, o + 1, w,
                                winograd_step(s_.out_blocks * tiles.count));
      }
    });
  }

  void accumulate(WinogradTiles tiles, const float* w, const float* v, float* g) const {
    const int64_t parts = (s_.out_blocks + kBlocks - 1) / kBlocks, of_tiles = tiles.count * block();
    parallel_tasks(kWinogradPositions * parts, slots_, [&](int64_t task, int) {
      const int64_t p = task / parts, o = task % parts * kBlocks;
      loops_.accumulate(w + p * winograd_step(s_.out_blocks * tiles.count) + o * of_tiles,
                        std::min(kBlocks, s_.out_blocks - o),
                        v + p * winograd_step(s_.in_blocks * tiles.count), s_.in_blocks,
                        tiles.count, tiles.first > 0,
                        g + p * g_step() + o * s_.in_blocks * block() * block());
    });
  }

  WinogradLoops loops_;
  WinogradShape s_;
  int64_t x_step_, dy_step_;  // numbers from one image to the next
  int64_t tiles_;
  int slots_;
  PrimitivePtr reorder_;
  size_t v_ = 0, w_ = 0, g_ = 0, dw_ = 0, scratch_ = 0;  // where they begin in the workspace
};

}  // namespace

std::unique_ptr<Kernel> winograd_grad_weight(const AskedConv& a) {
  return std::make_unique<GradWeight>(a);
}

}  // namespace ndtrain::onednn
