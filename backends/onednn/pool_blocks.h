// Pooling of blocked images, f32 and bf16. The rows of a window are joined first, column by column,
// and then what is left along the row: in the same order for every batch.
#pragma once

#include "backends/onednn/kernel.h"
#include "backends/onednn/pool_window.h"

namespace ndtrain::onednn {

// The window of a pooling node of images `x` [N, C, H, W] and what is pooled of them, `y`. Throws
// Unsupported for a dilated one.
PoolWindow pool_window(const Node& node, const ndt_tensor_type& x, const ndt_tensor_type& y);

// Throws Unsupported where a window holds nothing but padding.
void check_windows(const PoolWindow& w);

class BlockPool {
 public:
  // Throws Unsupported where a window holds nothing but padding.
  BlockPool(const PoolWindow& window, ndt_dtype t);

  size_t scratch() const;  // bytes
  // `blocks` of channels of one image. May be called from any threads at once. NaN is no maximum.
  void run(const void* x, void* y, int64_t blocks, void* scratch) const;

 private:
  PoolWindow window_;
  PoolLoop loop_;
};

}  // namespace ndtrain::onednn
