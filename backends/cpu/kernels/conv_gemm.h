// Two-dimensional f32 convolution as one matrix product per group: rows are output channels,
// columns all pixels of all images in one long row, k runs over (channel, ky, kx).
//
// The im2col matrix is never whole: a task takes a block of columns, stages the pixels it reads for
// some channels in its scratch memory (with zeros for the padding; a strided convolution's pixels
// sorted by their remainders, so that every tap reads a contiguous run), and packs panels of
// columns from there. A batch changes which tile computes a pixel, but not a bit of it (see
// packed_gemm.h).
#pragma once

#include <vector>

#include "backends/cpu/gemm/packed_gemm.h"
#include "backends/cpu/kernels/conv_geometry.h"
#include "backends/cpu/kernels/tap_stage.h"

namespace ndtrain::cpu {

class ConvGemm {
 public:
  // `geometry` is flat(). At most `slots` tasks run at once.
  ConvGemm(const ConvGeometry& geometry, int slots);

  size_t packed_floats() const;   // of the weights
  size_t scratch_floats() const;  // of a run
  // w[m * m_step + c * c_step + t * t_step], all groups' m in one row: other orders of the weights
  // (transposed, flipped) serve the gradients.
  void pack(const float* w, int64_t m_step, int64_t c_step, int64_t t_step, float* packed) const;
  void run(const float* packed, const float* x, float* y, const Epilogue& epilogue,
           float* scratch) const;

 private:
  // Columns [begin, end): part of one image or some whole images.
  struct Columns {
    int64_t begin, end, image, images, first_row, rows;
  };
  // `length` columns, from place `from` of a staged channel to place `to` of a packed row.
  struct Run {
    int64_t from, to, length;
  };
  struct Stage {
    const float* base;
    int64_t channel_step, image_step, phase_step, first_row;
    int64_t readable;  // floats from base on, a little more than the pixels where that is safe
  };

  void plan_columns();
  void plan_scratch(int slots);
  void run_task(int64_t task, const float* packed, const float* x, float* y,
                const Epilogue& epilogue, float* scratch) const;
  Stage stage(const Columns& columns, int64_t group, int64_t c0, int64_t c1, const float* x,
              float* to) const;
  int64_t runs_of(const Columns& columns, int64_t panel, const Stage& stage, Run* runs) const;
  void pack_columns(const Columns& columns, const Stage& stage, int64_t channels, float* to) const;

  ConvGeometry g_;
  RowPanels rows_;
  TapStage taps_;
  std::vector<Columns> columns_;
  int64_t channel_blocks_ = 1, row_chunks_ = 1;
  bool pack_whole_ = false;  // all of k is packed before any product
  int64_t stage_floats_ = 0, packed_columns_floats_ = 0, partial_floats_ = 0;
  int slots_;
};

}  // namespace ndtrain::cpu
