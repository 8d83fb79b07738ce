// Averages, products and sums of bytes whose channels lie together: the loops, one build for each
// instruction set.
#pragma once

#include <cstdint>

#include "backends/onednn/pool_window.h"

namespace ndtrain::onednn {

// Bytes counted from the lowest: `flip` is 0x80 for i8, and `zero` the zero point so counted.
struct CountedBytes {
  uint8_t flip = 0;
  int32_t zero = 0;
};

struct ByteMapLoops {
  // One row of the pooled image: `x` is the image, of `channels` bytes to a pixel. What is summed
  // is times `factor` over the cells that count, rounded to y.
  void (*average_row)(const PoolWindow& w, int64_t row, const uint8_t* x, CountedBytes from,
                      int64_t channels, float factor, uint8_t* y, CountedBytes to);
  // y[p][c] = (x[p][c] - zero) * by[c] * factor, rounded; `by` are integers. y is not x.
  void (*scale_pixels)(const uint8_t* x, CountedBytes from, const float* by, float factor,
                       int64_t pixels, int64_t channels, uint8_t* y, CountedBytes to);
  // y[p][c] = (x[p][c] - zero) * factor[c] + offset[c], rounded; pixels of y are `y_pixel` bytes
  // wide. y is not x.
  void (*shift_pixels)(const uint8_t* x, CountedBytes from, const float* factor,
                       const float* offset, int64_t pixels, int64_t channels, uint8_t* y,
                       int64_t y_pixel, CountedBytes to);
};

namespace v2 {
ByteMapLoops byte_map_loops();
}
namespace v3 {  // needs x86-64-v3
ByteMapLoops byte_map_loops();
}
namespace v4 {  // needs x86-64-v4
ByteMapLoops byte_map_loops();
}

}  // namespace ndtrain::onednn
