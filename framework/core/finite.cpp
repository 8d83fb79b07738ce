#include "framework/core/finite.h"

#include <cstdint>
#include <cstring>

namespace ndtrain {
namespace {

// NaN and infinity have all bits of the exponent set.
template <typename Bits, Bits kExponent>
bool exponents_below(std::span<const std::byte> values) {
  constexpr size_t kBlock = 4096;  // looked at without a branch
  const size_t n = values.size() / sizeof(Bits);
  for (size_t begin = 0; begin < n; begin += kBlock) {
    bool any = false;
    for (size_t i = begin; i < n && i < begin + kBlock; ++i) {
      Bits bits = 0;
      std::memcpy(&bits, values.data() + i * sizeof(Bits), sizeof(Bits));
      any |= (bits & kExponent) == kExponent;
    }
    if (any) return false;
  }
  return true;
}

}  // namespace

bool all_finite(DType type, std::span<const std::byte> values) {
  switch (type) {
    case DType::kF32:
      return exponents_below<uint32_t, 0x7f800000U>(values);
    case DType::kF64:
      return exponents_below<uint64_t, 0x7ff0000000000000U>(values);
    case DType::kF16:
      return exponents_below<uint16_t, 0x7c00U>(values);
    case DType::kBF16:
      return exponents_below<uint16_t, 0x7f80U>(values);
    default:
      return true;
  }
}

bool all_finite(const Tensor& t) {
  return all_finite(t.type().dtype, {static_cast<const std::byte*>(t.data()), t.bytes()});
}

}  // namespace ndtrain
