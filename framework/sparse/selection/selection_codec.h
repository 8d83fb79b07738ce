// Selections as they travel.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"
#include "framework/sparse/selection/selection.h"
#include "framework/sparse/selection/value_coding.h"

namespace ndtrain {

// A byte says how the indices are written, one how the values are (value_coding.h), a varint is
// their count. Then the indices, in the way that takes the fewest bytes with the values, of equal
// ones the first; then the values.
enum class IndexCoding : uint8_t {
  kDeltas,  // a varint each: how many elements were left out before it
  kBitmap,  // ceil(n / 8) bytes, the lowest bit first
  // Of each block of 16 elements (the last may be shorter) that has any, a varint: twice the blocks
  // left out before it, and 1 more if not all of its elements are here; then 2 bytes,
  // little-endian, have a bit for each that is.
  kBlocks,
  // All are here and of one magnitude: it, as one value, and ceil(n / 8) bytes, the lowest bit
  // first, of their signs. No values follow.
  kSigns,
  kAll  // no bytes: all are here
};

// Of a tensor of n elements, 1 <= n <= limits::kSparseElements.
std::string encode(const Selection& s, int64_t n, ValueCoding values);

// Of bytes that may be anything: kCorrupt, and what is wrong with them, unless they are one
// selection of n elements and no more. Takes memory in proportion to theirs.
Status decode(std::string_view bytes, int64_t n, Selection& out);

// Of values alone, to those who know the indices; back, likewise. The first byte is their coding.
std::string encode_values(std::span<const float> values, ValueCoding coding);
Status decode_values(std::string_view bytes, std::vector<uint32_t> indices, Selection& out);

}  // namespace ndtrain
