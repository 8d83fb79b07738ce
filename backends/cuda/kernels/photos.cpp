#include "backends/cuda/kernels/photos.h"

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {

std::unique_ptr<Kernel> prepare_photos(ndt_device&, const Node& node) {
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  if (x.dtype != NDT_U8 || x.rank != 4 || x.dims[3] != 3) {
    invalid("photos are u8 [N, H, W, 3], not ", describe(x));
  }
  for (int i = 0; i < 3; ++i) check_row_major(node.in(i), "input");
  for (int i = 1; i < 3; ++i) {
    if (node.in(i).dtype != NDT_F32 || count(node.in(i)) != 3) {
      invalid("input ", i, " is ", describe(node.in(i)), ", not f32[3]");
    }
  }
  if (y.dtype != NDT_F32 && y.dtype != NDT_F16 && y.dtype != NDT_BF16) {
    unsupported("it is not computed in ", name_of(y.dtype));
  }
  const Photos p{x.dims[0], x.dims[1] * x.dims[2], !is_channels_last(y), y.dtype};
  if (p.planar) check_row_major(y, "output");
  return kernel([p](ndt_stream& stream, const void* const* in, void* const* out, void*) {
    p.normalise(static_cast<const uint8_t*>(in[0]), static_cast<const float*>(in[1]),
                static_cast<const float*>(in[2]), out[0], stream.stream);
  });
}

// What convolutions want.
void prefer_photos(const ndt_device&, const Node&, ndt_tensor_type* in, ndt_tensor_type* out) {
  in[0] = row_major(in[0]);
  out[0] = channels_last(out[0]);
}

}  // namespace ndtrain::cuda
