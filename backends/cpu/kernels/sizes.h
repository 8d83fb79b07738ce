#pragma once

#include <cstdint>

namespace ndtrain::cpu {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rounded up to whole cache lines, so that what follows in a workspace is aligned.
inline int64_t whole_lines(int64_t floats) { return ceil_div(floats, 16) * 16; }

}  // namespace ndtrain::cpu
