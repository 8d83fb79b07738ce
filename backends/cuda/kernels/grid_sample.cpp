#include "backends/cuda/kernels/grid_sample.h"

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {

std::unique_ptr<Kernel> prepare_grid_sample(ndt_device&, const Node& node) {
  check_row_major(node);
  const ndt_tensor_type &x = node.in(0), &grid = node.in(1);
  check_float(x);
  if (grid.dtype != NDT_F32 && grid.dtype != NDT_F64) {
    unsupported("takes a grid of f32 or f64, not ", name_of(grid.dtype));
  }
  GridSampling s{.dims = x.rank - 2, .images = x.dims[0], .channels = x.dims[1]};
  if (s.dims < 1 || s.dims > 3 || grid.rank != x.rank) unsupported("samples images or volumes");
  for (int d = 0; d < s.dims; ++d) s.in *= s.extents[d] = x.dims[d + 2];
  s.out = count(grid, 1, grid.rank - 1);
  const std::string_view mode = node.s("mode"), padding = node.s("padding_mode");
  if (mode != "linear") s.mode = mode == "cubic" ? SampleMode::kCubic : SampleMode::kNearest;
  if (padding != "zeros") {
    s.padding = padding == "border" ? SamplePadding::kBorder : SamplePadding::kReflection;
  }
  s.align = node.i("align_corners") != 0;
  return kernel([s, t = x.dtype, g = grid.dtype](ndt_stream& stream, const void* const* in,
                                                 void* const* out, void*) {
    grid_sample(s, t, g, in[0], in[1], out[0], stream.stream);
  });
}

}  // namespace ndtrain::cuda
