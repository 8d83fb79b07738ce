// What the values of a selection travel as: floats, or integers with a scale for each block of them
// (Dettmers et al., "8-bit optimizers via block-wise quantization", ICLR 2022, with even steps; in
// 4 bits as the outer gradients of Douillard et al., "Streaming DiLoCo", arXiv:2501.18512).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/dtype.h"

namespace ndtrain {

// The number is the byte that travels. All is little-endian.
//
// f32, f16, bf16: the latter two rounded once, to nearest even.
//
// int8, int4: in blocks of 256 or 64 consecutive values, the last one as short as it has to be. Of
// a block first the scale, f32: the largest magnitude / 127 or / 7, rounded once (and to the float
// below where the largest multiple were infinite); then of each value q = value / scale, rounded
// half to even, two's complement: a byte, or four bits, of a byte the lower ones first; what is
// over of the last byte is 0. It is received as q scale, rounded once: within half a scale.
// Infinities do not count for the scale and are received as the largest there is, +-127 or +-7
// scales; NaN as 0. Where the scale would be below the least normal float, it and all of the block
// are 0.
enum class ValueCoding : uint8_t { kF32 = 1, kF16 = 2, kBF16 = 3, kInt8 = 4, kInt4 = 5 };

std::span<const ValueCoding> value_codings();
std::string_view name_of(ValueCoding coding);              // "f32", "int8", …
ValueCoding value_coding_named(std::string_view name);     // throws Error with what there is
ValueCoding value_coding_numbered(uint8_t number);         // throws Error if there is none
std::optional<DType> float_type_of(ValueCoding coding);    // of values that travel as floats
uint64_t value_bytes(uint64_t count, ValueCoding coding);  // that so many values take

void put_values(std::string& to, std::span<const float> values, ValueCoding coding);
// Adds `count` values of bytes that may be anything: Error unless they are value_bytes(), and
// scales and integers as above.
void get_values(std::string_view bytes, uint64_t count, ValueCoding coding, std::vector<float>& to);

// As they will be received. What is beyond the finite floats of f16 or bf16 becomes the largest;
// apart from that put_values() of these and of what they were are the same bytes.
void round_to_coding(std::span<float> values, ValueCoding coding);

}  // namespace ndtrain
