#include "framework/sparse/selection/scan.h"

#include <algorithm>
#include <array>
#include <cmath>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ndtrain {
namespace {

using Block = std::array<float, kBlockElements>;

float block_sum(const float* x) {
  Block s;
  for (int i = 0; i < kBlockElements; ++i) s[i] = std::fabs(x[i]);
  for (int half = kBlockElements / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) s[i] += s[i + half];
  }
  return s[0];
}

uint16_t block_mask(const float* x, float threshold) {
  unsigned mask = 0;
  for (int i = 0; i < kBlockElements; ++i) {
    mask |= static_cast<unsigned>(!(std::fabs(x[i]) < threshold)) << i;
  }
  return static_cast<uint16_t>(mask);
}

void sum_blocks(const float* x, int64_t blocks, float* sums) {
  for (int64_t b = 0; b < blocks; ++b) sums[b] = block_sum(x + b * kBlockElements);
}

void mask_blocks(const float* x, int64_t blocks, float threshold, uint16_t* masks) {
  for (int64_t b = 0; b < blocks; ++b) masks[b] = block_mask(x + b * kBlockElements, threshold);
}

#if defined(__x86_64__)

[[gnu::target("avx2")]] inline __m256 magnitudes_avx2(const float* x) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), _mm256_loadu_ps(x));
}

// Values some way ahead are asked for early: a thread alone reads faster so. What lies behind the
// last is asked for in vain.
inline void fetch_ahead(const float* x, int64_t values) {
  constexpr int64_t kAhead = 2048, kLine = 16;
  for (int64_t i = 0; i < values; i += kLine) __builtin_prefetch(x + kAhead + i);
}

// Eight blocks at once: of each, the eight sums of its halves, then a transposing tree.
[[gnu::target("avx2")]] void sum_blocks_avx2(const float* x, int64_t blocks, float* sums) {
  int64_t b = 0;
  for (; b + 8 <= blocks; b += 8) {
    const float* const at = x + b * kBlockElements;
    fetch_ahead(at, int64_t{8} * kBlockElements);
    __m256 s[8];
    for (int64_t i = 0; i < 8; ++i) {
      s[i] = _mm256_add_ps(magnitudes_avx2(at + 16 * i), magnitudes_avx2(at + 16 * i + 8));
    }
    __m256 fours[4];  // block i in the lower half, block i + 4 in the upper one
    for (int64_t i = 0; i < 4; ++i) {
      fours[i] = _mm256_add_ps(_mm256_permute2f128_ps(s[i], s[i + 4], 0x20),
                               _mm256_permute2f128_ps(s[i], s[i + 4], 0x31));
    }
    __m256 twos[2];
    for (int64_t i = 0; i < 2; ++i) {
      twos[i] = _mm256_add_ps(_mm256_shuffle_ps(fours[2 * i], fours[2 * i + 1], 0x44),
                              _mm256_shuffle_ps(fours[2 * i], fours[2 * i + 1], 0xee));
    }
    _mm256_storeu_ps(sums + b, _mm256_add_ps(_mm256_shuffle_ps(twos[0], twos[1], 0x88),
                                             _mm256_shuffle_ps(twos[0], twos[1], 0xdd)));
  }
  sum_blocks(x + b * kBlockElements, blocks - b, sums + b);
}

[[gnu::target("avx2")]] void mask_blocks_avx2(const float* x, int64_t blocks, float threshold,
                                              uint16_t* masks) {
  const __m256 t = _mm256_set1_ps(threshold);
  for (int64_t b = 0; b < blocks; ++b) {
    const float* const at = x + b * kBlockElements;
    const int low = _mm256_movemask_ps(_mm256_cmp_ps(magnitudes_avx2(at), t, _CMP_NLT_UQ));
    const int high = _mm256_movemask_ps(_mm256_cmp_ps(magnitudes_avx2(at + 8), t, _CMP_NLT_UQ));
    masks[b] = static_cast<uint16_t>(low | high << 8);
  }
}

// Sixteen blocks at once, by the same tree.
[[gnu::target("avx512f,avx512dq")]] void sum_blocks_avx512(const float* x, int64_t blocks,
                                                           float* sums) {
  int64_t b = 0;
  for (; b + 16 <= blocks; b += 16) {
    const float* const at = x + b * kBlockElements;
    fetch_ahead(at, int64_t{16} * kBlockElements);
    __m512 eights[8];  // block i in the lower half, block i + 8 in the upper one
    for (int64_t i = 0; i < 8; ++i) {
      const __m512 v = _mm512_abs_ps(_mm512_loadu_ps(at + 16 * i));
      const __m512 w = _mm512_abs_ps(_mm512_loadu_ps(at + 16 * (i + 8)));
      eights[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v, w, 0x44), _mm512_shuffle_f32x4(v, w, 0xee));
    }
    __m512 fours[4];  // blocks i, i + 4, i + 8, i + 12
    for (int64_t i = 0; i < 4; ++i) {
      const __m512 even = _mm512_shuffle_f32x4(eights[i], eights[i + 4], 0x88);
      const __m512 odd = _mm512_shuffle_f32x4(eights[i], eights[i + 4], 0xdd);
      fours[i] = _mm512_add_ps(even, odd);  // i, i + 8, i + 4, i + 12
    }
    __m512 twos[2];
    for (int64_t i = 0; i < 2; ++i) {
      twos[i] = _mm512_add_ps(_mm512_shuffle_ps(fours[2 * i], fours[2 * i + 1], 0x44),
                              _mm512_shuffle_ps(fours[2 * i], fours[2 * i + 1], 0xee));
    }
    const __m512 ones = _mm512_add_ps(_mm512_shuffle_ps(twos[0], twos[1], 0x88),
                                      _mm512_shuffle_ps(twos[0], twos[1], 0xdd));
    _mm512_storeu_ps(sums + b, _mm512_shuffle_f32x4(ones, ones, 0xd8));
  }
  sum_blocks(x + b * kBlockElements, blocks - b, sums + b);
}

[[gnu::target("avx512f,avx512dq")]] void mask_blocks_avx512(const float* x, int64_t blocks,
                                                            float threshold, uint16_t* masks) {
  const __m512 t = _mm512_set1_ps(threshold);
  for (int64_t b = 0; b < blocks; ++b) {
    const __m512 v = _mm512_abs_ps(_mm512_loadu_ps(x + b * kBlockElements));
    masks[b] = _mm512_cmp_ps_mask(v, t, _CMP_NLT_UQ);
  }
}

#endif

}  // namespace

std::span<const InstructionSet> instruction_sets_here() {
  static constexpr std::array kAll = {InstructionSet::kBaseline, InstructionSet::kAvx2,
                                      InstructionSet::kAvx512};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return kAll;
  if (__builtin_cpu_supports("avx2")) return std::span(kAll).first(2);
#endif
  return std::span(kAll).first(1);
}

void block_sums(std::span<const float> values, std::span<float> sums, InstructionSet set) {
  const auto whole = static_cast<int64_t>(values.size()) / kBlockElements;
  switch (set) {
#if defined(__x86_64__)
    case InstructionSet::kAvx512:
      sum_blocks_avx512(values.data(), whole, sums.data());
      break;
    case InstructionSet::kAvx2:
      sum_blocks_avx2(values.data(), whole, sums.data());
      break;
#endif
    default:
      sum_blocks(values.data(), whole, sums.data());
  }
  const std::span<const float> rest = values.subspan(whole * kBlockElements);
  if (rest.empty()) return;
  Block last = {};
  std::copy(rest.begin(), rest.end(), last.begin());
  sums[whole] = block_sum(last.data()) *
                (static_cast<float>(kBlockElements) / static_cast<float>(rest.size()));
}

void mask_at_least(std::span<const float> values, float threshold, std::span<uint16_t> masks,
                   InstructionSet set) {
  const auto whole = static_cast<int64_t>(values.size()) / kBlockElements;
  switch (set) {
#if defined(__x86_64__)
    case InstructionSet::kAvx512:
      mask_blocks_avx512(values.data(), whole, threshold, masks.data());
      break;
    case InstructionSet::kAvx2:
      mask_blocks_avx2(values.data(), whole, threshold, masks.data());
      break;
#endif
    default:
      mask_blocks(values.data(), whole, threshold, masks.data());
  }
  const std::span<const float> rest = values.subspan(whole * kBlockElements);
  if (rest.empty()) return;
  Block last = {};
  std::copy(rest.begin(), rest.end(), last.begin());
  masks[whole] = static_cast<uint16_t>(block_mask(last.data(), threshold) &
                                       ((unsigned{1} << rest.size()) - 1));
}

}  // namespace ndtrain
