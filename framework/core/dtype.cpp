#include "framework/core/dtype.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
struct Truth {
  uint8_t byte;
};

constexpr DType kAll[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI8,
                          DType::kU8,  DType::kI16, DType::kU16,  DType::kI32, DType::kU32,
                          DType::kI64, DType::kU64, DType::kBool};

// Calls f with a value of the C++ type that stands for `t`.
template <typename F>
auto dispatch(DType t, F f) {
  switch (t) {
    case DType::kF32:
      return f(float{});
    case DType::kF16:
      return f(Half{});
    case DType::kBF16:
      return f(Brain{});
    case DType::kF64:
      return f(double{});
    case DType::kI8:
      return f(int8_t{});
    case DType::kU8:
      return f(uint8_t{});
    case DType::kI16:
      return f(int16_t{});
    case DType::kU16:
      return f(uint16_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kU32:
      return f(uint32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kU64:
      return f(uint64_t{});
    case DType::kBool:
      return f(Truth{});
    case DType::kNone:
      break;
  }
  throw Error("dtype: ", name_of(t), " has no values");
}

// Rounding a double to f32 and that to 16 bits can be off by one unit (double rounding). With the
// first step rounded to odd it cannot, as f32 has more than two bits to spare.
float round_to_odd(double x) {
  const float f = static_cast<float>(x);
  if (static_cast<double>(f) == x || std::isnan(x) || (std::bit_cast<uint32_t>(f) & 1) != 0) {
    return f;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  return std::nextafter(f, x < static_cast<double>(f) ? -infinity : infinity);
}

template <typename T>
T from_double(double x) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(x);
  } else if constexpr (std::is_same_v<T, Half>) {
    return {f16_from_f32(round_to_odd(x))};
  } else if constexpr (std::is_same_v<T, Brain>) {
    return {bf16_from_f32(round_to_odd(x))};
  } else if constexpr (std::is_same_v<T, Truth>) {
    return {static_cast<uint8_t>(x != 0)};
  } else {
    constexpr double kTwo63 = 9223372036854775808.0;
    if (std::isnan(x)) return 0;
    if (x < -kTwo63) return std::numeric_limits<T>::min();
    if (x < kTwo63) return static_cast<T>(static_cast<int64_t>(x));
    if (std::is_signed_v<T> || x >= 2 * kTwo63) return std::numeric_limits<T>::max();
    return static_cast<T>(static_cast<uint64_t>(x));
  }
}

template <typename T>
double to_double(T v) {
  if constexpr (std::is_same_v<T, Half>) {
    return f32_from_f16(v.bits);
  } else if constexpr (std::is_same_v<T, Brain>) {
    return f32_from_bf16(v.bits);
  } else if constexpr (std::is_same_v<T, Truth>) {
    return v.byte != 0;
  } else {
    return static_cast<double>(v);
  }
}

}  // namespace

size_t size_of(DType t) {
  return dispatch(t, [](auto v) { return sizeof(v); });
}

std::string_view name_of(DType t) {
  switch (t) {
    case DType::kNone:
      return "none";
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kF64:
      return "f64";
    case DType::kI8:
      return "i8";
    case DType::kU8:
      return "u8";
    case DType::kI16:
      return "i16";
    case DType::kU16:
      return "u16";
    case DType::kI32:
      return "i32";
    case DType::kU32:
      return "u32";
    case DType::kI64:
      return "i64";
    case DType::kU64:
      return "u64";
    case DType::kBool:
      return "bool";
  }
  throw Error("dtype: no type has the number ", static_cast<int>(t));
}

DType dtype_named(std::string_view name) {
  for (DType t : kAll) {
    if (name_of(t) == name) return t;
  }
  throw Error("dtype: '", name,
              "' is not one of f32 f16 bf16 f64 i8 u8 i16 u16 i32 u32 i64 u64 bool");
}

bool is_float(DType t) {
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16 || t == DType::kF64;
}

uint16_t f16_from_f32(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    const uint32_t payload = magnitude >> 13 & 0x3ff;
    return static_cast<uint16_t>(sign | 0x7c00 | (payload != 0 ? payload : 0x200));
  }
  if (magnitude >= 0x47800000) return static_cast<uint16_t>(sign | 0x7c00);  // >= 2^16
  if (magnitude < 0x38800000) {
    // Below 2^-14 the result is subnormal: adding 0.5 lines its unit, 2^-24, up with the last
    // mantissa bit of the sum, and the addition itself rounds to nearest even.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000));
  }
  const uint32_t rebiased = magnitude - 0x38000000;
  return static_cast<uint16_t>(sign | (rebiased + 0xfff + (rebiased >> 13 & 1)) >> 13);
}

float f32_from_f16(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16;
  const uint32_t magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00)
    return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x0400) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000));
  const float small = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(small));
}

uint16_t bf16_from_f32(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    const uint32_t high = bits >> 16;
    return static_cast<uint16_t>((high & 0x7f) != 0 ? high : high | 0x40);
  }
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float f32_from_bf16(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }

double rounded(double x, DType t) {
  if (t == DType::kF32) return x;
  return dispatch(t, [x](auto v) { return to_double(from_double<decltype(v)>(x)); });
}

void store(const double* from, size_t n, DType t, void* bytes) {
  // memcpy: the bytes may come from a file and need not be aligned.
  dispatch(t, [&](auto v) {
    auto* to = static_cast<std::byte*>(bytes);
    for (size_t i = 0; i < n; ++i) {
      v = from_double<decltype(v)>(from[i]);
      std::memcpy(to + i * sizeof(v), &v, sizeof(v));
    }
  });
}

void load(const void* bytes, size_t n, DType t, double* to) {
  dispatch(t, [&](auto v) {
    const auto* from = static_cast<const std::byte*>(bytes);
    for (size_t i = 0; i < n; ++i) {
      std::memcpy(&v, from + i * sizeof(v), sizeof(v));
      to[i] = to_double(v);
    }
  });
}

}  // namespace ndtrain
