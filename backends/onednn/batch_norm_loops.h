// The loops of BatchNormalization that trains over one block of channels, f32 and bf16, one build
// for each instruction set. Statistics and sums are of f32; what is written is rounded once.
#pragma once

#include <cstdint>

#include "framework/runtime/backend_abi.h"

namespace ndtrain::onednn {

inline constexpr int kMostLanes = 16;  // channels of a block

struct ChannelLanes {
  alignas(64) float of[kMostLanes];
};

// The block in every image: `images` planes of `plane` pixels, `step` bytes apart.
struct BlockPlanes {
  int64_t images, plane, step;
};

struct BatchMoments {
  ChannelLanes mean, var;  // of the population
};

// Of a gradient dy beside x: mean of dy, mean of dy * (x - mean of x).
struct BatchSlopes {
  BatchMoments x;
  ChannelLanes shift, slope;
};

struct BatchNormLoops {
  // In one pass over x: chunks that stay in the first cache have their moments in two passes, and
  // are joined in double in the order of the images (Chan et al., "Updating formulae", 1979).
  void (*moments)(const BlockPlanes& at, const void* x, BatchMoments* found);
  // y = (x - mean) * factor + bias; x and y may be the same.
  void (*scale)(const BlockPlanes& at, const void* x, void* y, const ChannelLanes& mean,
                const ChannelLanes& factor, const ChannelLanes& bias);
  void (*slopes)(const BlockPlanes& at, const void* dy, const void* x, BatchSlopes* found);
  // dx = factor * (dy - shift - (x - mean) * slope)
  void (*back)(const BlockPlanes& at, const void* dy, const void* x, void* dx,
               const BatchSlopes& found, const ChannelLanes& factor);
};

// Null for other dtypes than f32 and bf16.
namespace v2 {  // blocks of 8 channels
const BatchNormLoops* batch_norm_loops(ndt_dtype t);
}
namespace v3 {  // of 8, needs x86-64-v3
const BatchNormLoops* batch_norm_loops(ndt_dtype t);
}
namespace v4 {  // of 16, needs x86-64-v4
const BatchNormLoops* batch_norm_loops(ndt_dtype t);
}

}  // namespace ndtrain::onednn
