#include "backends/cuda/dnn/conv_kernel.h"

#include <cstring>

#include "backends/cuda/layout.h"

namespace ndtrain::cuda {
namespace {

void lay_out(const ndt_tensor_type& from, const ndt_tensor_type& to, const char* data, char* out) {
  const auto bytes = static_cast<size_t>(size_of(from.dtype));
  const int64_t n = count(from);
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, at = 0, into = 0;
    for (int d = from.rank; d-- > 0;) {
      const int64_t k = rest % from.dims[d];
      rest /= from.dims[d];
      at += k * from.strides[d];
      into += k * to.strides[d];
    }
    std::memcpy(out + static_cast<size_t>(into) * bytes, data + static_cast<size_t>(at) * bytes,
                bytes);
  }
}

}  // namespace

Staged::Port weights_port(const ndt_device& device, const Node& node, int i,
                          const ndt_tensor_type& w, bool last) {
  const ndt_tensor_type inside = laid(w, last);
  Staged::Port port{Staged::Port::Role::kInput, i, w, inside};
  const void* data = node.constant(i);
  if (!data) return port;
  port.role = Staged::Port::Role::kFixed;
  port.data =
      packed_weights(device, node.constant_id(i),
                     text_of(last ? "channels-last " : "row-major ", plugin::describe(w)),
                     static_cast<size_t>(count(w) * size_of(w.dtype)), [&](void* to) {
                       lay_out(w, inside, static_cast<const char*>(data), static_cast<char*>(to));
                     });
  return port;
}

uint64_t packed_bits(const Node& node, int i) {
  return node.constant(i) ? uint64_t{1} << i : uint64_t{0};
}

Numerics numerics_of(const ndt_device& device, const AskedConv& a) {
  return {.tensor_cores = a.x.dtype != NDT_F32 || device.allow_tf32};
}

std::unique_ptr<Kernel> first_layout(
    const AskedConv& a, const std::function<std::unique_ptr<Kernel>(bool last)>& attempt) {
  std::string why;
  for (const bool last : layouts_to_try(a)) {
    try {
      return attempt(last);
    } catch (const Unsupported& e) {
      why = e.what();
    }
  }
  unsupported(why);
}

}  // namespace ndtrain::cuda
