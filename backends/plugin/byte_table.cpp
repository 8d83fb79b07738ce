#include "backends/plugin/byte_table.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ndtrain::plugin {
namespace {

#if defined(__x86_64__)

// Gives how many were looked up: the rest is less than a vector.
__attribute__((target("avx512f,avx512bw,avx512vbmi"))) int64_t look_up_vectors(const uint8_t* x,
                                                                               int64_t n,
                                                                               const uint8_t* table,
                                                                               uint8_t* y) {
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64),
                t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    const __m512i at = _mm512_loadu_si512(x + i);
    const __m512i low = _mm512_permutex2var_epi8(t0, at, t1),
                  high = _mm512_permutex2var_epi8(t2, at, t3);
    _mm512_storeu_si512(y + i, _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), low, high));
  }
  return i;
}

#endif

}  // namespace

void look_up(const uint8_t* x, int64_t n, const uint8_t* table, uint8_t* y) {
  int64_t i = 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vbmi")) i = look_up_vectors(x, n, table, y);
#endif
  for (; i < n; ++i) y[i] = table[x[i]];
}

}  // namespace ndtrain::plugin
