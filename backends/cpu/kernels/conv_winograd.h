// Two-dimensional f32 convolution with 3x3 kernels, stride 1 and no dilation by minimal filtering:
// F(2x2, 3x3) of Winograd, "Arithmetic Complexity of Computations" (1980), as Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks" (2015), use it for networks. A 2x2 tile of outputs
//   y = At [sum over channels of (G w Gt) * (Bt d B)] A
// of the 4x4 pixels d it reads takes 16 products per channel in place of 36. All transforms are
// sums of at most four terms (and halves, of the weights, made in double), so little precision is
// lost.
//
// For each of the 16 positions in a transformed tile there is one matrix product: rows are output
// channels, columns the tiles of all images in one long row (conv_columns.h), k the channels. As
// with ConvGemm, a batch does not change a bit of a pixel.
#pragma once

#include "backends/cpu/kernels/conv_columns.h"
#include "backends/cpu/kernels/conv_product.h"
#include "backends/cpu/kernels/conv_tasks.h"

namespace ndtrain::cpu {

class ConvWinograd final : public ConvProduct {
 public:
  static bool fits(const ConvGeometry& geometry);

  // `geometry` fits(). At most `slots` tasks run at once.
  ConvWinograd(const ConvGeometry& geometry, int slots);

  std::string layout() const override;
  size_t packed_floats() const override;
  size_t scratch_floats() const override;
  void pack(const float* w, float* packed) const override;
  void run(const float* packed, const float* x, float* y, const Epilogue& epilogue,
           float* scratch) const override;

 private:
  using Block = ConvColumns::Block;

  void run_task(const ConvTasks::Task& task, const float* packed, const float* x, float* y,
                const Epilogue& epilogue, float* scratch) const;
  // Bt d B of every channel of `group` and tile of `block`.
  void transform_pixels(const Block& block, int64_t group, const float* x, float* stage,
                        float* to) const;
  // At m A of row panels [first, last), to their places in y.
  void transform_products(const Block& block, int64_t first, int64_t last, const float* products,
                          int64_t position_step, float* y, const Epilogue& epilogue) const;

  ConvGeometry g_;
  RowPanels rows_;
  ConvColumns tiles_;
  int slots_;
  ConvTasks tasks_;
  int64_t row_group_ = 1;  // row panels multiplied at a time
  int64_t stage_floats_ = 0, pixels_floats_ = 0, products_floats_ = 0;
};

}  // namespace ndtrain::cpu
