#include "ndp/engine/network_input.h"

#include <algorithm>
#include <cstring>

#include "framework/runtime/device_tensor.h"

namespace ndtrain::ndp {

void send_bytes_where_faster(BatchPlans& plans, const Preprocess& preprocess) {
  if (plans.reads_photos() || plans.device().shares_host_memory()) return;
  plans.read_photos({.mean = preprocess.mean,
                     .std = preprocess.std,
                     .channels_last = preprocess.layout == Layout::kNhwc});
}

NetworkInput::NetworkInput(const Preprocess& preprocess, bool bytes, const Device* to)
    : preprocess_(preprocess),
      bytes_(bytes),
      to_(to),
      row_bytes_(preprocess.values() * (bytes ? 1 : sizeof(float))) {}

void NetworkInput::resize(int64_t rows) {
  if (room_.defined() && rows <= room_.shape()[0]) return;
  const int64_t side = preprocess_.img_size;
  const bool last = bytes_ || preprocess_.layout == Layout::kNhwc;
  const TensorType type{bytes_ ? DType::kU8 : DType::kF32,
                        last ? Shape{rows, side, side, 3} : Shape{rows, 3, side, side}};
  room_ = {};
  room_ = to_ ? host_tensor(*to_, type) : Tensor(type);
}

std::byte* NetworkInput::row(int64_t i) {
  return static_cast<std::byte*>(room_.mutable_data()) + static_cast<size_t>(i) * row_bytes_;
}

void NetworkInput::put(int64_t i, const Image& crop) {
  if (!bytes_) return normalize(crop, preprocess_, reinterpret_cast<float*>(row(i)));
  if (crop.rgb.size() != row_bytes_) {
    throw Error("a crop of ", crop.rgb.size(), " bytes; the network sees ", row_bytes_);
  }
  std::memcpy(row(i), crop.rgb.data(), row_bytes_);
}

void NetworkInput::copy(int64_t from, int64_t to) {
  if (from != to) std::memcpy(row(to), row(from), row_bytes_);
}

Tensor NetworkInput::first(int64_t rows) const { return room_.rows(0, rows); }

}  // namespace ndtrain::ndp
