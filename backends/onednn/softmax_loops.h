// Softmax of a row of scores: the loops, one build for each instruction set.
#pragma once

#include <cstdint>

namespace ndtrain::onednn {

// Numbers that are added to a row of scores.
struct MaskRow {
  const uint16_t* data = nullptr;  // bf16; null: none
  int64_t step = 0;                // 1, or 0: one number for all
};

// y = e^(s - largest) / sum of these, s = x * scale + mask, in f32, rounded to bf16. `scratch` has
// room for n floats and 15 more. A row that has a NaN, or is -inf throughout, is NaN.
using SoftmaxRow = void (*)(const float* x, int64_t n, float scale, MaskRow mask, float* scratch,
                            uint16_t* y);

namespace v2 {
SoftmaxRow softmax_row();
}
namespace v3 {  // needs x86-64-v3
SoftmaxRow softmax_row();
}
namespace v4 {  // needs x86-64-v4
SoftmaxRow softmax_row();
}

}  // namespace ndtrain::onednn
