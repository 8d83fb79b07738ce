// The loop of MaxPoolGrad over blocks of channels, f32 and bf16, one build for each instruction
// set.
#pragma once

#include "backends/onednn/pool_window.h"

namespace ndtrain::onednn {

// dx of `blocks` of channels of one image: each dy goes to the first maximum of its window, and
// what reaches a pixel is summed in f32 in the order of the windows. `winners` has room for a block
// of output pixels.
using MaxPoolGradLoop = void (*)(const PoolWindow& w, const void* dy, const void* x, void* dx,
                                 int64_t blocks, int32_t* winners);

// Null for other dtypes than f32 and bf16.
namespace v2 {  // blocks of 8 channels
MaxPoolGradLoop max_pool_grad_loop(ndt_dtype t);
}
namespace v3 {  // of 8, needs x86-64-v3
MaxPoolGradLoop max_pool_grad_loop(ndt_dtype t);
}
namespace v4 {  // of 16, needs x86-64-v4
MaxPoolGradLoop max_pool_grad_loop(ndt_dtype t);
}

}  // namespace ndtrain::onednn
