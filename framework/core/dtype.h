#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ndtrain {

// Numbered like ndt_dtype of runtime/backend_abi.h (a test holds the two together).
enum class DType : uint8_t {
  kNone = 0,  // an optional port that is not there
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool
};

size_t size_of(DType t);                   // bytes; throws Error for kNone
std::string_view name_of(DType t);         // "f32", "i64", …
DType dtype_named(std::string_view name);  // throws Error if there is none
bool is_float(DType t);

// IEEE half and bfloat16 as bit patterns; conversion rounds to nearest even, keeps NaN and
// infinity.
uint16_t f16_from_f32(float x);
float f32_from_f16(uint16_t h);
uint16_t bf16_from_f32(float x);
float f32_from_bf16(uint16_t b);

// What a double becomes when stored as `t` and read back: floats round, integers truncate and wrap,
// bool is 0 or 1. Values no integer can hold saturate. f32 and f64 keep the double: the reference
// interpreter is an oracle and does not round between ops.
double rounded(double x, DType t);

// `bytes` holds n elements of `t`.
void store(const double* from, size_t n, DType t, void* bytes);
void load(const void* bytes, size_t n, DType t, double* to);

}  // namespace ndtrain
