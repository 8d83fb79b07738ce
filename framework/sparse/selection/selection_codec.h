// Selections as they travel.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/dtype.h"
#include "framework/core/status.h"
#include "framework/sparse/selection/selection.h"

namespace ndtrain {

// A byte says how the indices are written, one is the type of the values (DType), a varint is their
// count. Then the indices, in the way that takes the fewest bytes, of equal ones the first; then
// the values, little-endian: f32, or rounded once to f16 or bf16.
enum class IndexCoding : uint8_t {
  kDeltas,  // a varint each: how many elements were left out before it
  kBitmap,  // ceil(n / 8) bytes, the lowest bit first
  // Of each block of 16 elements (the last may be shorter) that has any, a varint: twice the blocks
  // left out before it, and 1 more if not all of its elements are here; then 2 bytes,
  // little-endian, have a bit for each that is.
  kBlocks,
  // All are here and of one magnitude: it, as the value's type, and ceil(n / 8) bytes, the lowest
  // bit first, of their signs. No values follow.
  kSigns
};

// Of a tensor of n elements, 1 <= n <= limits::kSparseElements. `values` is kF32, kF16 or kBF16.
std::string encode(const Selection& s, int64_t n, DType values);

// Of bytes that may be anything: kCorrupt, and what is wrong with them, unless they are one
// selection of n elements and no more. Takes no more memory than a few times theirs.
Status decode(std::string_view bytes, int64_t n, Selection& out);

// Of values alone, to those who know the indices; back, likewise. The type is the first byte.
std::string encode_values(std::span<const float> values, DType type);
Status decode_values(std::string_view bytes, std::vector<uint32_t> indices, Selection& out);

}  // namespace ndtrain
