#pragma once

#include <cstdint>

namespace ndtrain::plugin {

// y[i] = table[x[i]], with x and y as unsigned bytes; y may be x. Sixty-four at a time where the
// processor has AVX512_VBMI.
void look_up(const uint8_t* x, int64_t n, const uint8_t* table, uint8_t* y);

}  // namespace ndtrain::plugin
