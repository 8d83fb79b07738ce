// The columns of a convolution's matrix product: the outputs of all images in one long row, cut
// into blocks, and what the taps of a window read for them.
//
// The im2col matrix is never whole: the pixels that a block reads of some channels are staged in
// scratch memory (see tap_stage.h), and panels of kTileCols columns are read from there.
#pragma once

#include <algorithm>
#include <vector>

#include "backends/cpu/gemm/packed_gemm.h"
#include "backends/cpu/kernels/conv_geometry.h"
#include "backends/cpu/kernels/tap_stage.h"

namespace ndtrain::cpu {

class ConvColumns {
 public:
  // Columns [begin, end): part of one image or some whole images.
  struct Block {
    int64_t begin, end, image, images, first_row, rows;
    int64_t columns() const { return end - begin; }
    int64_t panels() const { return col_panels(columns()); }
  };

  // Staged pixels of some channels, for one block.
  struct Stage {
    const float* base;
    int64_t channels, channel_step, image_step, phase_step, first_row;
    int64_t readable;  // floats from base on, a little more than the pixels where that is safe
  };

  // One panel's columns. They are read in the contiguous runs that their pixels make.
  class Panel {
   public:
    // What `tap` reads of staged channel `c` for every column, zeros from the last one on.
    // Writes to[0, kTileCols), and may spoil kLanes floats after it.
    void read(int64_t c, const TapStage::Tap& tap, float* to) const;

   private:
    friend class ConvColumns;
    struct Run {
      int64_t from, to, length;
    };
    const float* base_;
    int64_t channel_step_, phase_step_, width_;
    int64_t runs_ = 0, filled_ = 0;
    bool exact_ = false;  // nothing past a run may be read
    Run run_[kTileCols];
  };

  // The window `taps` gives `out` (rows, columns) of every image of x, whose planes hold `plane`
  // floats, `channels` planes to an image. A block has about `columns` columns.
  ConvColumns(TapStage taps, TapStage::Pair out, int64_t images, int64_t channels, int64_t plane,
              int64_t columns);

  const TapStage& taps() const { return taps_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  int64_t out_plane() const { return out_[0] * out_[1]; }
  int64_t most_panels() const { return most_panels_; }  // of a block
  int64_t stage_floats(int64_t channels) const;         // of a block, for that many channels

  // Stages channels [first, first + channels) of x for `block` in `to` of stage_floats(channels).
  Stage stage(const Block& block, int64_t first, int64_t channels, const float* x, float* to) const;
  Panel panel(const Block& block, int64_t panel, const Stage& stage) const;

 private:
  TapStage taps_;
  TapStage::Pair out_;
  int64_t images_, channels_, plane_;
  std::vector<Block> blocks_;
  int64_t most_panels_ = 0, most_staged_ = 0;
};

inline void ConvColumns::Panel::read(int64_t c, const TapStage::Tap& tap, float* to) const {
  const float* from =
      base_ + c * channel_step_ + tap.phase * phase_step_ + tap.row * width_ + tap.col;
  if (runs_ == 1 && filled_ == kTileCols) {
    store(to, load(from + run_[0].from));
    store(to + kLanes, load(from + run_[0].from + kLanes));
    return;
  }
  for (int64_t r = 0; r < runs_; ++r) {
    const Run& run = run_[r];
    if (exact_) {
      std::copy_n(from + run.from, run.length, to + run.to);
    } else {  // what whole vectors spoil past a run is written by the next one
      for (int64_t i = 0; i < run.length; i += kLanes) {
        store(to + run.to + i, load(from + run.from + i));
      }
    }
  }
  std::fill(to + filled_, to + kTileCols, 0.0f);
}

}  // namespace ndtrain::cpu
