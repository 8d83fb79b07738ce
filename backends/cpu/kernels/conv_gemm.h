// Two-dimensional f32 convolution as one matrix product per group: rows are output channels,
// columns all pixels of all images in one long row (conv_columns.h), k runs over (channel, ky, kx).
// A batch changes which tile computes a pixel, but not a bit of it (see packed_gemm.h).
#pragma once

#include "backends/cpu/kernels/conv_columns.h"
#include "backends/cpu/kernels/conv_product.h"
#include "backends/cpu/kernels/conv_tasks.h"

namespace ndtrain::cpu {

class ConvGemm final : public ConvProduct {
 public:
  ConvGemm(const ConvGeometry& geometry, int slots);

  std::string layout() const override;
  size_t packed_floats() const override;
  size_t scratch_floats() const override;
  void pack(const float* w, float* packed) const override;
  void run(const float* packed, const float* x, float* y, const Epilogue& epilogue,
           float* scratch) const override;

 private:
  void plan_scratch();
  void run_task(const ConvTasks::Task& task, const float* packed, const float* x, float* y,
                const Epilogue& epilogue, float* scratch) const;
  void pack_columns(const ConvColumns::Block& block, const ConvColumns::Stage& stage,
                    float* to) const;

  ConvGeometry g_;
  RowPanels rows_;
  ConvColumns columns_;
  int slots_;
  ConvTasks tasks_;
  int64_t channel_blocks_ = 1;
  bool pack_whole_ = false;  // all of k is packed before any product
  int64_t stage_floats_ = 0, packed_columns_floats_ = 0, partial_floats_ = 0;
};

}  // namespace ndtrain::cpu
