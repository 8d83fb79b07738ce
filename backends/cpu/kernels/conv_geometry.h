// The sizes of a convolution, read from a node's types and attributes. Always three spatial dims
// (depth, height, width): missing ones are 1.
#pragma once

#include <array>

#include "backends/cpu/kernels/kernel.h"

namespace ndtrain::cpu {

struct ConvGeometry {
  using Spatial = std::array<int64_t, 3>;

  int64_t images = 0, groups = 1;
  int64_t out_channels = 0, in_channels = 0;  // per group
  Spatial in{}, kernel{}, out{}, stride{}, dilation{}, begin{};
  int64_t out_image_step = 0;  // elements of y from one image to the next

  int64_t in_plane() const { return in[0] * in[1] * in[2]; }
  int64_t out_plane() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t terms() const { return in_channels * taps(); }
  int64_t all_out() const { return groups * out_channels; }
  int64_t all_in() const { return groups * in_channels; }
  bool gaps() const { return images > 1 && out_image_step != all_out() * out_plane(); }
  bool flat() const { return in[0] == 1 && kernel[0] == 1 && out[0] == 1; }  // two spatial dims
  // y[i] reads x[i] and nothing else: a matrix product over the channels.
  bool pointwise() const;
};

// Attributes strides, dilations, pads and group of `node`; x [N, C, …], w [M, C/group, …] and
// y [N, M, …]. Throws when they contradict one another.
ConvGeometry conv_geometry(const Node& node, const ndt_tensor_type& x, const ndt_tensor_type& w,
                           const ndt_tensor_type& y);

}  // namespace ndtrain::cpu
