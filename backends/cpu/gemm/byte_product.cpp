#include "backends/cpu/gemm/byte_product.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace ndtrain::cpu {
namespace {

// i32 lanes of the instruction set this build is for.
#if defined(__AVX512BW__)
constexpr int kIntLanes = 16;
#elif defined(__AVX2__)
constexpr int kIntLanes = 8;
#else
constexpr int kIntLanes = 4;
#endif
constexpr int kVectors = kByteCols / kIntLanes;
typedef int32_t Ints __attribute__((vector_size(kIntLanes * sizeof(int32_t)), may_alias));
typedef int16_t Pairs __attribute__((vector_size(kIntLanes * sizeof(int32_t)), may_alias));

int32_t group_at(const std::byte* p) {
  int32_t g;
  std::memcpy(&g, p, sizeof g);
  return g;
}

// Of neighbours in a pair: their products, added.
Ints added_products(Pairs a, Pairs b) {
#if defined(__AVX512BW__)
  return (Ints)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (Ints)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (Ints)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
  Ints sum;
  for (int i = 0; i < kIntLanes; ++i) sum[i] = a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
  return sum;
#endif
}

// Sums stay in registers: the loops over them are unrolled and no address of theirs is taken.

// Groups are pairs of 16 bits.
void multiply_pairs(const std::byte* rows, int64_t groups, const std::byte* w,
                    int32_t (*sums)[kByteCols]) {
  Ints sum[kByteRows][kVectors] = {};
  for (int64_t g = 0; g < groups; ++g) {
    const Pairs* b = reinterpret_cast<const Pairs*>(w + g * kByteCols * 4);
#pragma GCC unroll 8
    for (int r = 0; r < kByteRows; ++r) {
      const Pairs a = (Pairs)(group_at(rows + (r * groups + g) * 4) - Ints{});
#pragma GCC unroll 8
      for (int64_t v = 0; v < kVectors; ++v) sum[r][v] += added_products(a, b[v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kByteRows; ++r) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v)
      *reinterpret_cast<Ints*>(sums[r] + v * kIntLanes) = sum[r][v];
  }
}

#if defined(__AVX512BW__)

__attribute__((target("avx512vnni"))) void multiply_fours(const std::byte* rows, int64_t groups,
                                                          const std::byte* w,
                                                          int32_t (*sums)[kByteCols]) {
  __m512i sum[kByteRows][kVectors] = {};
  for (int64_t g = 0; g < groups; ++g) {
    const std::byte* b = w + g * kByteCols * 4;
#pragma GCC unroll 8
    for (int r = 0; r < kByteRows; ++r) {
      const __m512i a = _mm512_set1_epi32(group_at(rows + (r * groups + g) * 4));
#pragma GCC unroll 8
      for (int64_t v = 0; v < kVectors; ++v) {
        sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], a, _mm512_load_si512(b + v * 64));
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kByteRows; ++r) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) _mm512_store_si512(sums[r] + v * kIntLanes, sum[r][v]);
  }
}

#endif

template <typename T>
T* element(void* to, int64_t i) {
  return static_cast<T*>(to) + i;
}

}  // namespace

bool ByteProduct::has_vnni() {
#if defined(__AVX512BW__)
  return __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

ByteProduct::ByteProduct(int64_t k, int64_t n, bool vnni)
    : k_(k), n_(n), vnni_(vnni && has_vnni()) {}

void ByteProduct::pack(const int8_t* w, int64_t k_step, int64_t col_step, void* to) const {
  std::memset(to, 0, packed_bytes());
  const int64_t group = vnni_ ? 4 : 2;
  for (int64_t c = 0; c < n_; ++c) {
    for (int64_t i = 0; i < k_; ++i) {
      const int64_t panel = c / kByteCols * groups() + i / group;
      const int64_t at = (panel * kByteCols + c % kByteCols) * group + i % group;
      const int8_t value = w[i * k_step + c * col_step];
      if (vnni_) {
        *element<int8_t>(to, at) = value;
      } else {
        *element<int16_t>(to, at) = value;  // NOLINT(bugprone-signed-char-misuse): a number
      }
    }
  }
}

void ByteProduct::stage(const uint8_t* x, int64_t rows, uint8_t flip, void* to) const {
  std::memset(to, 0, rows_bytes());
  const int64_t step = groups() * (vnni_ ? 4 : 2);
  for (int64_t r = 0; r < rows; ++r) {
    const uint8_t* from = x + r * k_;
    if (vnni_) {
      uint8_t* row = element<uint8_t>(to, r * step);
      for (int64_t i = 0; i < k_; ++i) row[i] = from[i] ^ flip;
    } else {
      int16_t* row = element<int16_t>(to, r * step);
      for (int64_t i = 0; i < k_; ++i) row[i] = static_cast<uint8_t>(from[i] ^ flip);
    }
  }
}

void ByteProduct::multiply(const void* rows, const void* packed, int64_t panel,
                           int32_t (*sums)[kByteCols]) const {
  const auto* from = static_cast<const std::byte*>(rows);
  const auto* w =
      static_cast<const std::byte*>(packed) + static_cast<size_t>(panel) * panel_bytes();
#if defined(__AVX512BW__)
  if (vnni_) return multiply_fours(from, groups(), w, sums);
#endif
  multiply_pairs(from, groups(), w, sums);
}

}  // namespace ndtrain::cpu
