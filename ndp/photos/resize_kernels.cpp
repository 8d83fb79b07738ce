#include "ndp/photos/resize_kernels.h"

#include <algorithm>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace ndtrain::ndp::resize_kernels {
namespace {

constexpr uint32_t kHalf = uint32_t{1} << (kFractionBits - 1);

uint32_t weight(const WeightPair& w, int tap) {
  const auto low = static_cast<int16_t>(tap == 0 ? w.low : w.low >> 16);
  const auto high = static_cast<int16_t>(tap == 0 ? w.high : w.high >> 16);
  return static_cast<uint32_t>(high) * (1u << kLowBits) + static_cast<uint32_t>(low);
}

uint8_t rounded(uint32_t sum) {
  return static_cast<uint8_t>(std::clamp(static_cast<int32_t>(sum) >> kFractionBits, 0, 255));
}

#ifdef __SSE2__
__m128i multiply_add(__m128i sum, __m128i values, uint32_t pair) {
  return _mm_add_epi32(sum, _mm_madd_epi16(values, _mm_set1_epi32(static_cast<int>(pair))));
}

__m128i total(__m128i low, __m128i high) {
  return _mm_srai_epi32(_mm_add_epi32(low, _mm_slli_epi32(high, kLowBits)), kFractionBits);
}

void horizontal_pixel(const uint8_t* from, const WeightPair* weights, int pairs, uint8_t* to) {
  const __m128i zero = _mm_setzero_si128();
  __m128i low = _mm_set1_epi32(static_cast<int>(kHalf));
  __m128i high = zero;
  for (int p = 0; p < pairs; ++p, from += 6) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    const __m128i first = _mm_unpacklo_epi8(bytes, zero);
    const __m128i values = _mm_unpacklo_epi16(first, _mm_srli_si128(first, 6));  // R R G G B B
    low = multiply_add(low, values, weights[p].low);
    high = multiply_add(high, values, weights[p].high);
  }
  const __m128i words = _mm_packs_epi32(total(low, high), zero);
  const int pixel = _mm_cvtsi128_si32(_mm_packus_epi16(words, zero));
  std::memcpy(to, &pixel, sizeof pixel);
}

void vertical_16(const uint8_t* const* rows, const WeightPair* weights, int pairs, int at,
                 uint8_t* to) {
  const __m128i zero = _mm_setzero_si128();
  const __m128i half = _mm_set1_epi32(static_cast<int>(kHalf));
  __m128i low[4] = {half, half, half, half};
  __m128i high[4] = {zero, zero, zero, zero};
  for (int p = 0; p < pairs; ++p) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[2 * p] + at));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[2 * p + 1] + at));
    const __m128i first = _mm_unpacklo_epi8(a, b), last = _mm_unpackhi_epi8(a, b);
    const __m128i values[4] = {_mm_unpacklo_epi8(first, zero), _mm_unpackhi_epi8(first, zero),
                               _mm_unpacklo_epi8(last, zero), _mm_unpackhi_epi8(last, zero)};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      low[i] = multiply_add(low[i], values[i], weights[p].low);
      high[i] = multiply_add(high[i], values[i], weights[p].high);
    }
  }
  const __m128i left = _mm_packs_epi32(total(low[0], high[0]), total(low[1], high[1]));
  const __m128i right = _mm_packs_epi32(total(low[2], high[2]), total(low[3], high[3]));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at), _mm_packus_epi16(left, right));
}
#else
void horizontal_pixel(const uint8_t* from, const WeightPair* weights, int pairs, uint8_t* to) {
  uint32_t sum[3] = {kHalf, kHalf, kHalf};
  for (int tap = 0; tap < 2 * pairs; ++tap, from += 3) {
    const uint32_t w = weight(weights[tap / 2], tap % 2);
    for (int c = 0; c < 3; ++c) sum[c] += w * from[c];
  }
  for (int c = 0; c < 3; ++c) to[c] = rounded(sum[c]);
}
#endif

}  // namespace

void horizontal_row(const uint8_t* from, const Taps* taps, const WeightPair* weights,
                    int most_pairs, int n, uint8_t* to) {
  for (int x = 0; x < n; ++x, weights += most_pairs, to += 3) {
    horizontal_pixel(from + size_t{3} * taps[x].first, weights, taps[x].pairs(), to);
  }
}

void vertical_row(const uint8_t* const* rows, const WeightPair* weights, int pairs, int n,
                  uint8_t* to) {
  int i = 0;
#ifdef __SSE2__
  for (; i + 16 <= n; i += 16) vertical_16(rows, weights, pairs, i, to);
#endif
  for (; i < n; ++i) {
    uint32_t sum = kHalf;
    for (int r = 0; r < 2 * pairs; ++r) sum += weight(weights[r / 2], r % 2) * rows[r][i];
    to[i] = rounded(sum);
  }
}

}  // namespace ndtrain::ndp::resize_kernels
