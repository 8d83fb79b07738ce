#include "backends/cuda/dnn/right_side.h"

#include <cstring>

namespace ndtrain::cuda {
namespace {

constexpr int64_t kUsualImages = 32;

}  // namespace

std::shared_ptr<const Memory> upload_right(const ndt_device& device, const plugin::Node& node) {
  const void* data = node.constant(kRight);
  if (!data) return nullptr;
  const ndt_tensor_type& type = node.in(kRight);
  const auto bytes = static_cast<size_t>(plugin::count(type) * plugin::size_of(type.dtype));
  return packed_weights(device, node.constant_id(kRight), "as it is", bytes,
                        [&](void* to) { std::memcpy(to, data, bytes); });
}

int64_t usual_rows(const plugin::Node& node, const ProductShape& s, int64_t rows_of_an_image) {
  const bool by_image = node.constant(kRight) && s.rank == 0 && rows_of_an_image > 0;
  return by_image ? kUsualImages * rows_of_an_image : s.m;
}

}  // namespace ndtrain::cuda
