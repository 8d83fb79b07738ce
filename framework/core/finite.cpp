#include "framework/core/finite.h"

#include <cstdint>
#include <cstring>

namespace ndtrain {
namespace {

// NaN and infinity have all bits of the exponent set: then those of the result are, else none.
template <typename Bits, Bits kExponent>
Bits not_finite(const std::byte* at) {
  Bits bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return (bits & kExponent) == kExponent ? static_cast<Bits>(~Bits{0}) : Bits{0};
}

template <typename Bits, Bits kExponent>
bool exponents_below(std::span<const std::byte> values) {
  constexpr size_t kBlock = 4096;  // of so many, known here, vectors are made
  for (; values.size() >= kBlock * sizeof(Bits); values = values.subspan(kBlock * sizeof(Bits))) {
    Bits any = 0;
    for (size_t i = 0; i < kBlock; ++i) {
      any |= not_finite<Bits, kExponent>(values.data() + i * sizeof(Bits));
    }
    if (any != 0) return false;
  }
  for (; values.size() >= sizeof(Bits); values = values.subspan(sizeof(Bits))) {
    if (not_finite<Bits, kExponent>(values.data()) != 0) return false;
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
