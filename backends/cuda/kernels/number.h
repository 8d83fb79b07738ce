// Numbers as kernels see them: stored in any dtype, computed with in one of four types W: float
// (for f32, f16, bf16), double, int64_t (for integers and bool) and uint64_t (for u64).
#pragma once

#include <cmath>
#include <type_traits>

#include "backends/cuda/kernels/launch.h"
#include "framework/runtime/backend_abi.h"

#define NDT_DEVICE __device__ __forceinline__
#ifdef __CUDACC__
#define NDT_UNROLL _Pragma("unroll")
#else
#define NDT_UNROLL
#endif

namespace ndtrain::cuda {

using F16 = __half;
using BF16 = __nv_bfloat16;

template <typename T>
constexpr bool kIsHalf = std::is_same<T, F16>::value || std::is_same<T, BF16>::value;

// The type that numbers stored as T are computed with in.
template <typename T>
using Wide = std::conditional_t<
    kIsHalf<T>, float,
    std::conditional_t<std::is_integral<T>::value,
                       std::conditional_t<std::is_same<T, uint64_t>::value, uint64_t, int64_t>, T>>;

template <typename T>
NDT_DEVICE Wide<T> widen(T x) {
  if constexpr (std::is_same<T, F16>::value) {
    return __half2float(x);
  } else if constexpr (std::is_same<T, BF16>::value) {
    return __bfloat162float(x);
  } else {
    return static_cast<Wide<T>>(x);
  }
}

// Truncates; beyond 64 bits it saturates, below it wraps; NaN is 0.
template <typename To, typename W>
NDT_DEVICE To integer_of(W x) {
  constexpr W k63 = W(9223372036854775808.0), k64 = W(18446744073709551616.0);
  constexpr bool kSigned = std::is_signed<To>::value;
  constexpr int kBits = static_cast<int>(8 * sizeof(To));
  constexpr uint64_t kHighest = ~uint64_t{0} >> (64 - kBits + (kSigned ? 1 : 0));
  if (x < k63 && x >= -k63) return static_cast<To>(static_cast<int64_t>(x));
  if (x != x) return To(0);
  if (x < W(0)) return kSigned ? static_cast<To>(uint64_t{1} << (kBits - 1)) : To(0);
  if (kSigned || x >= k64) return static_cast<To>(kHighest);
  return static_cast<To>(static_cast<uint64_t>(x));
}

// Floats round to the nearest, halves to even.
template <typename To, typename W>
NDT_DEVICE To narrow(W x) {
  if constexpr (std::is_same<To, F16>::value) {
    if constexpr (std::is_same<W, float>::value) return __float2half_rn(x);
    return __double2half(static_cast<double>(x));
  } else if constexpr (std::is_same<To, BF16>::value) {
    if constexpr (std::is_same<W, float>::value) return __float2bfloat16_rn(x);
    return __double2bfloat16(static_cast<double>(x));
  } else if constexpr (std::is_integral<To>::value && std::is_floating_point<W>::value) {
    return integer_of<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename W, typename T>
NDT_DEVICE W load_as(const void* data, int64_t i) {
  return narrow<W>(widen(static_cast<const T*>(data)[i]));
}

// Element i of `data`, whose dtype is known at run time only.
template <typename W>
NDT_DEVICE W load(const void* data, ndt_dtype t, int64_t i) {
  switch (t) {
    case NDT_F32:
      return load_as<W, float>(data, i);
    case NDT_F16:
      return load_as<W, F16>(data, i);
    case NDT_BF16:
      return load_as<W, BF16>(data, i);
    case NDT_F64:
      return load_as<W, double>(data, i);
    case NDT_I8:
      return load_as<W, int8_t>(data, i);
    case NDT_I16:
      return load_as<W, int16_t>(data, i);
    case NDT_U16:
      return load_as<W, uint16_t>(data, i);
    case NDT_I32:
      return load_as<W, int32_t>(data, i);
    case NDT_U32:
      return load_as<W, uint32_t>(data, i);
    case NDT_I64:
      return load_as<W, int64_t>(data, i);
    case NDT_U64:
      return load_as<W, uint64_t>(data, i);
    default:  // u8 and bool
      return load_as<W, uint8_t>(data, i);
  }
}

template <typename T, typename W>
NDT_DEVICE void store_as(void* data, int64_t i, W x) {
  static_cast<T*>(data)[i] = narrow<T>(x);
}

template <typename W>
NDT_DEVICE void store(void* data, ndt_dtype t, int64_t i, W x) {
  switch (t) {
    case NDT_F32:
      return store_as<float>(data, i, x);
    case NDT_F16:
      return store_as<F16>(data, i, x);
    case NDT_BF16:
      return store_as<BF16>(data, i, x);
    case NDT_F64:
      return store_as<double>(data, i, x);
    case NDT_I8:
      return store_as<int8_t>(data, i, x);
    case NDT_U8:
      return store_as<uint8_t>(data, i, x);
    case NDT_I16:
      return store_as<int16_t>(data, i, x);
    case NDT_U16:
      return store_as<uint16_t>(data, i, x);
    case NDT_I32:
      return store_as<int32_t>(data, i, x);
    case NDT_U32:
      return store_as<uint32_t>(data, i, x);
    case NDT_I64:
      return store_as<int64_t>(data, i, x);
    case NDT_U64:
      return store_as<uint64_t>(data, i, x);
    default:  // bool: anything but 0
      static_cast<uint8_t*>(data)[i] = x != W(0) ? 1 : 0;
  }
}

// The same for float dtypes.
template <typename W>
NDT_DEVICE W load_float(const void* data, ndt_dtype t, int64_t i) {
  switch (t) {
    case NDT_F16:
      return load_as<W, F16>(data, i);
    case NDT_BF16:
      return load_as<W, BF16>(data, i);
    case NDT_F64:
      return load_as<W, double>(data, i);
    default:
      return load_as<W, float>(data, i);
  }
}

template <typename W>
NDT_DEVICE void store_float(void* data, ndt_dtype t, int64_t i, W x) {
  switch (t) {
    case NDT_F16:
      return store_as<F16>(data, i, x);
    case NDT_BF16:
      return store_as<BF16>(data, i, x);
    case NDT_F64:
      return store_as<double>(data, i, x);
    default:
      return store_as<float>(data, i, x);
  }
}

// Which W a dtype is computed in.
enum class Class { kFloat, kDouble, kSigned, kUnsigned };

inline Class class_of(ndt_dtype t) {
  switch (t) {
    case NDT_F32:
    case NDT_F16:
    case NDT_BF16:
      return Class::kFloat;
    case NDT_F64:
      return Class::kDouble;
    default:
      return t == NDT_U64 ? Class::kUnsigned : Class::kSigned;
  }
}

// Calls f(As<T>{}) with the type that `t` is stored in, for a float dtype; false for any other.
template <typename F>
bool for_float(ndt_dtype t, F f) {
  switch (t) {
    case NDT_F32:
      f(As<float>{});
      return true;
    case NDT_F16:
      f(As<F16>{});
      return true;
    case NDT_BF16:
      f(As<BF16>{});
      return true;
    case NDT_F64:
      f(As<double>{});
      return true;
    default:
      return false;
  }
}

// Calls f(As<Word>{}) with an unsigned integer of 1, 2, 4 or 8 bytes: for kernels that move
// elements and do not look at them.
template <typename F>
void for_word(int64_t bytes, F f) {
  switch (bytes) {
    case 1:
      return f(As<uint8_t>{});
    case 2:
      return f(As<uint16_t>{});
    case 4:
      return f(As<uint32_t>{});
    default:
      return f(As<uint64_t>{});
  }
}

}  // namespace ndtrain::cuda
