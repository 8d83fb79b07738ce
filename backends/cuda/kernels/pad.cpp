#include "backends/cuda/kernels/pad.h"

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

Border border_of(const Node& node) {
  const std::string_view mode = node.s("mode");
  if (mode == "constant") return Border::kConstant;
  if (mode == "edge") return Border::kEdge;
  if (mode == "reflect") return Border::kReflect;
  if (mode == "wrap") return Border::kWrap;
  unsupported("mode ", mode);
}

}  // namespace

// Any layouts.
std::unique_ptr<Kernel> prepare_pad(ndt_device&, const Node& node) {
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  if (x.channel_block > 1 || y.channel_block > 1) unsupported("blocks of channels");
  if (node.has(2) && node.in(2).dtype != x.dtype) invalid("a value of another dtype");
  Padding p{.count = count(y), .rank = x.rank, .dims = {}, .border = border_of(node)};
  for (int d = 0; d < x.rank; ++d) {
    p.dims[d] = {Divisor(y.dims[d]), x.dims[d], 0, y.strides[d], x.strides[d]};
  }
  const std::vector<int64_t> pads = known_ints(node, 1, "pads");
  std::vector<int64_t> axes;
  if (node.has(3)) axes = known_ints(node, 3, "axes");
  for (int d = 0; !node.has(3) && d < x.rank; ++d) axes.push_back(d);
  if (pads.size() != 2 * axes.size()) invalid(pads.size(), " pads for ", axes.size(), " axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t d = axes[i] < 0 ? axes[i] + x.rank : axes[i];
    if (d < 0 || d >= x.rank) invalid("axes name dim ", axes[i]);
    p.dims[d].before = pads[i];
  }
  return kernel([p, bytes = size_of(x.dtype), value = node.has(2)](
                    ndt_stream& stream, const void* const* in, void* const* out, void*) {
    pad(p, bytes, in[0], value ? in[2] : nullptr, out[0], stream.stream);
  });
}

}  // namespace ndtrain::cuda
