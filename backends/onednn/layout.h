// The ways a tensor may lie in memory here, read from and written to the strides of its type.
//
//   plain    row-major
//   blocked  [N, C/b, H, W, b], C rounded up and zeros in the padding lanes; b is block()
//   last     [N, H, W, C]; a pixel may be wider than C (part of a joined Concat)
//
// Plain and blocked may have a gap after every image.
#pragma once

#include <cstdint>

#include "framework/runtime/backend_abi.h"

namespace ndtrain::onednn {

enum class Layout { kPlain, kBlocked, kLast };

// Channels in a block on this processor: 16 with AVX-512, else 8.
int block();

// Rewrites strides and channel_block, without gaps. Blocked and last are for rank 4.
void set_layout(ndt_tensor_type& t, Layout layout);

// Throws Unsupported, with `what` ("input 0"), for any other. Where a type is plain and last at
// once (H = W = 1), it is last for bytes and plain for wider types.
Layout layout_of(const ndt_tensor_type& t, const char* what);

// In the given layout; a type may be in two at once.
bool lies(const ndt_tensor_type& t, Layout layout);

// Elements of one image where it lies, padding lanes included.
int64_t image_extent(const ndt_tensor_type& t, Layout layout);
int64_t image_step(const ndt_tensor_type& t, Layout layout);  // from one image to the next
bool has_gaps(const ndt_tensor_type& t, Layout layout);

// `t` without gaps.
ndt_tensor_type dense(ndt_tensor_type t, Layout layout);

}  // namespace ndtrain::onednn
