// How a pool's window slides over the planes of [N, C, …]. Always three spatial dims: missing ones
// are 1.
#pragma once

#include <array>
#include <vector>

#include "backends/cpu/kernels/kernel.h"
#include "backends/cpu/kernels/tap_stage.h"

namespace ndtrain::cpu {

struct PoolWindow {
  using Spatial = std::array<int64_t, 3>;

  int64_t planes = 0;
  Spatial in{}, kernel{}, out{}, stride{}, dilation{}, begin{}, end{};

  int64_t in_plane() const { return in[0] * in[1] * in[2]; }
  int64_t out_plane() const { return out[0] * out[1] * out[2]; }
  bool flat() const { return in[0] == 1 && kernel[0] == 1 && out[0] == 1; }
  // Of a flat() window's rows alone: its columns' joins, out[1] by in[2], are what slides.
  TapStage row_stage() const;
  // How many cells the average of each output of a plane divides by (at least 1).
  std::vector<float> counts(bool include_pad) const;
};

// Attributes kernel_shape, strides, dilations and pads of `node`; x [N, C, …], y [N, C, …].
PoolWindow pool_window(const Node& node, const ndt_tensor_type& x, const ndt_tensor_type& y);

// Calls f(cell) for the input cells of output `o`, flat, in row-major order.
template <typename F>
void for_cells(const PoolWindow& w, int64_t o, const F& f) {
  const int64_t x = o % w.out[2] * w.stride[2] - w.begin[2];
  const int64_t y = o / w.out[2] % w.out[1] * w.stride[1] - w.begin[1];
  const int64_t z = o / w.out[2] / w.out[1] * w.stride[0] - w.begin[0];
  for (int64_t kz = 0, iz = z; kz < w.kernel[0]; ++kz, iz += w.dilation[0]) {
    if (iz < 0 || iz >= w.in[0]) continue;
    for (int64_t ky = 0, iy = y; ky < w.kernel[1]; ++ky, iy += w.dilation[1]) {
      if (iy < 0 || iy >= w.in[1]) continue;
      for (int64_t kx = 0, ix = x; kx < w.kernel[2]; ++kx, ix += w.dilation[2]) {
        if (ix >= 0 && ix < w.in[2]) f((iz * w.in[1] + iy) * w.in[2] + ix);
      }
    }
  }
}

}  // namespace ndtrain::cpu
