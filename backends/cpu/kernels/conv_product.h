// A two-dimensional f32 convolution as matrix products over packed weights, by one of two
// algorithms. Which one follows from the layer alone, never from the batch.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/gemm/packed_gemm.h"
#include "backends/cpu/kernels/conv_geometry.h"

namespace ndtrain::cpu {

class ConvProduct {
 public:
  virtual ~ConvProduct() = default;

  virtual std::string layout() const = 0;     // what the packed weights depend on
  virtual size_t packed_floats() const = 0;   // of the weights
  virtual size_t scratch_floats() const = 0;  // of a run
  // w [M, C/group, taps], all groups' M in one row.
  virtual void pack(const float* w, float* packed) const = 0;
  virtual void run(const float* packed, const float* x, float* y, const Epilogue& epilogue,
                   float* scratch) const = 0;
};

// `geometry` is flat(). At most `slots` tasks run at once. `less_memory`: weights in their plain
// size.
std::unique_ptr<ConvProduct> conv_product(const ConvGeometry& geometry, int slots,
                                          bool less_memory);

}  // namespace ndtrain::cpu
