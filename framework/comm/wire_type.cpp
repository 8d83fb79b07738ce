#include "framework/comm/wire_type.h"

#include <cstring>

#include "framework/core/error.h"

namespace ndtrain {

void check_wire_type(DType type) {
  if (type != DType::kF32 && type != DType::kBF16 && type != DType::kF16) {
    throw Error("wire: floats travel as f32, bf16 or f16, not as ", name_of(type));
  }
}

void to_wire(std::span<const float> from, DType type, void* to) {
  auto* const halves = static_cast<uint16_t*>(to);
  if (type == DType::kF32) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
  } else if (type == DType::kBF16) {
    for (size_t i = 0; i < from.size(); ++i) halves[i] = bf16_from_f32(from[i]);
  } else {
    for (size_t i = 0; i < from.size(); ++i) halves[i] = f16_from_f32(from[i]);
  }
}

void from_wire(const void* from, DType type, size_t first, std::span<float> to) {
  const auto* const halves = static_cast<const uint16_t*>(from) + first;
  if (type == DType::kF32) {
    if (!to.empty())
      std::memcpy(to.data(), static_cast<const float*>(from) + first, to.size_bytes());
  } else if (type == DType::kBF16) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = f32_from_bf16(halves[i]);
  } else {
    for (size_t i = 0; i < to.size(); ++i) to[i] = f32_from_f16(halves[i]);
  }
}

void round_to_wire(std::span<float> values, DType type) {
  if (type == DType::kBF16) {
    for (float& v : values) v = f32_from_bf16(bf16_from_f32(v));
  } else if (type == DType::kF16) {
    for (float& v : values) v = f32_from_f16(f16_from_f32(v));
  }
}

}  // namespace ndtrain
