#include "framework/sparse/selection/value_coding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <ostream>

#include "framework/core/dtype.h"
#include "framework/core/error.h"
#include "framework/sparse/selection/little_endian.h"
#include "framework/sparse/selection/magnitude.h"

namespace ndtrain {
namespace {

struct NamedCoding {
  ValueCoding coding;
  std::string_view name;
};

constexpr std::array kNamedCodings = {
    NamedCoding{ValueCoding::kF32, "f32"}, NamedCoding{ValueCoding::kF16, "f16"},
    NamedCoding{ValueCoding::kBF16, "bf16"}, NamedCoding{ValueCoding::kInt8, "int8"},
    NamedCoding{ValueCoding::kInt4, "int4"}};

constexpr auto kCodings = [] {
  std::array<ValueCoding, kNamedCodings.size()> codings{};
  for (size_t i = 0; i < codings.size(); ++i) codings[i] = kNamedCodings[i].coding;
  return codings;
}();

constexpr size_t kLargestBlock = 256;

// Integers with a scale for each block.
struct Integers {
  size_t block;  // values
  int most;      // the largest
  int in_byte;
};

constexpr Integers kInt8s = {.block = kLargestBlock, .most = 127, .in_byte = 1};
constexpr Integers kInt4s = {.block = 64, .most = 7, .in_byte = 2};

// None: floats.
const Integers* integers_of(ValueCoding coding) {
  if (coding == ValueCoding::kInt8) return &kInt8s;
  return coding == ValueCoding::kInt4 ? &kInt4s : nullptr;
}

size_t integer_bytes(size_t count, const Integers& as) {
  return as.in_byte == 1 ? count : (count + 1) / 2;
}

// f(values from, values) for each block.
template <typename F>
void for_value_blocks(size_t count, const Integers& as, const F& f) {
  for (size_t begin = 0; begin < count; begin += as.block)
    f(begin, std::min(as.block, count - begin));
}

// Of a block, and the integers into `to`.
float quantize(std::span<const float> block, const Integers& as, int8_t* to) {
  const auto largest = static_cast<float>(as.most);
  float scale = of_magnitude(largest_finite_magnitude(block)) / largest;
  if (std::isinf(scale * largest)) scale = std::nextafter(scale, 0.0F);
  if (scale < std::numeric_limits<float>::min()) {
    std::fill_n(to, block.size(), int8_t{0});
    return 0;
  }
  // A double of this size has no fraction: what is added to it is rounded half to even.
  constexpr double kWhole = 0x1.8p52;
  const double most = as.most;
  for (size_t i = 0; i < block.size(); ++i) {
    const double q = std::clamp(double{block[i]} / double{scale}, -most, most);
    to[i] = std::isnan(q) ? int8_t{0} : static_cast<int8_t>((q + kWhole) - kWhole);
  }
  return scale;
}

void put_block(std::string& to, std::span<const float> block, const Integers& as) {
  std::array<int8_t, kLargestBlock> q;
  put_le(to, std::bit_cast<uint32_t>(quantize(block, as, q.data())));
  if (as.in_byte == 1) {
    to.append(reinterpret_cast<const char*>(q.data()), block.size());
    return;
  }
  for (size_t i = 0; i < block.size(); i += 2) {
    const int low = q[i] & 15, high = i + 1 < block.size() ? q[i + 1] & 15 : 0;
    to += static_cast<char>(high << 4 | low);
  }
}

// Of 4 bits.
int8_t sign_extended(unsigned bits) { return static_cast<int8_t>(static_cast<int>(bits ^ 8) - 8); }

void get_block(std::string_view bytes, size_t count, const Integers& as, std::vector<float>& to) {
  const auto scale = std::bit_cast<float>(get_le<uint32_t>(bytes.data()));
  const float largest = scale * static_cast<float>(as.most);
  const bool is_zero = std::bit_cast<uint32_t>(scale) == 0;
  if (!is_zero && !(scale >= std::numeric_limits<float>::min() && std::isfinite(largest))) {
    throw Error("values with a scale of ", scale);
  }
  bytes.remove_prefix(sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    const auto byte = static_cast<uint8_t>(bytes[as.in_byte == 1 ? i : i / 2]);
    const int8_t q = as.in_byte == 1 ? static_cast<int8_t>(byte)
                                     : sign_extended(i % 2 == 0 ? byte & 15U : byte >> 4U);
    if (q < -as.most || (is_zero && q != 0)) {
      throw Error("a value of ", int{q}, " scales of ", scale);
    }
    to.push_back(static_cast<float>(q) * scale);
  }
  if (as.in_byte == 2 && count % 2 != 0 && static_cast<uint8_t>(bytes.back()) >> 4 != 0) {
    throw Error("half a byte is over, and not 0");
  }
}

}  // namespace

std::span<const ValueCoding> value_codings() { return kCodings; }

std::string_view name_of(ValueCoding coding) {
  for (const NamedCoding& one : kNamedCodings) {
    if (one.coding == coding) return one.name;
  }
  throw Error("values are written in way ", static_cast<int>(coding), ", which there is not");
}

ValueCoding value_coding_named(std::string_view name) {
  std::string known;
  for (const NamedCoding& one : kNamedCodings) {
    if (one.name == name) return one.coding;
    known += known.empty() ? "" : one.coding == kNamedCodings.back().coding ? " and " : ", ";
    known += one.name;
  }
  throw Error("there are ", known);
}

std::optional<DType> float_type_of(ValueCoding coding) {
  switch (coding) {
    case ValueCoding::kF32:
      return DType::kF32;
    case ValueCoding::kF16:
      return DType::kF16;
    case ValueCoding::kBF16:
      return DType::kBF16;
    default:
      return std::nullopt;
  }
}

ValueCoding value_coding_numbered(uint8_t number) {
  const auto coding = static_cast<ValueCoding>(number);
  (void)name_of(coding);
  return coding;
}

uint64_t value_bytes(uint64_t count, ValueCoding coding) {
  if (const Integers* as = integers_of(coding)) {
    return (count + as->block - 1) / as->block * sizeof(float) + integer_bytes(count, *as);
  }
  return count * (coding == ValueCoding::kF32 ? sizeof(float) : sizeof(uint16_t));
}

void put_values(std::string& to, std::span<const float> values, ValueCoding coding) {
  if (const Integers* as = integers_of(coding)) {
    return for_value_blocks(values.size(), *as, [&](size_t begin, size_t count) {
      put_block(to, values.subspan(begin, count), *as);
    });
  }
  for (const float x : values) {
    if (coding == ValueCoding::kF32) put_le(to, std::bit_cast<uint32_t>(x));
    if (coding == ValueCoding::kF16) put_le(to, f16_from_f32(x));
    if (coding == ValueCoding::kBF16) put_le(to, bf16_from_f32(x));
  }
}

void get_values(std::string_view bytes, uint64_t count, ValueCoding coding,
                std::vector<float>& to) {
  if (bytes.size() != value_bytes(count, coding)) {
    throw Error(bytes.size(), " bytes for ", count, " values of ", name_of(coding));
  }
  to.reserve(to.size() + count);
  if (const Integers* as = integers_of(coding)) {
    return for_value_blocks(count, *as, [&](size_t, size_t in_block) {
      const size_t length = sizeof(float) + integer_bytes(in_block, *as);
      get_block(bytes.substr(0, length), in_block, *as, to);
      bytes.remove_prefix(length);
    });
  }
  for (uint64_t i = 0; i < count; ++i) {
    const char* const at = bytes.data() + i * (bytes.size() / count);
    if (coding == ValueCoding::kF32) to.push_back(std::bit_cast<float>(get_le<uint32_t>(at)));
    if (coding == ValueCoding::kF16) to.push_back(f32_from_f16(get_le<uint16_t>(at)));
    if (coding == ValueCoding::kBF16) to.push_back(f32_from_bf16(get_le<uint16_t>(at)));
  }
}

void round_to_coding(std::span<float> values, ValueCoding coding) {
  if (coding == ValueCoding::kF32) return;
  if (const Integers* as = integers_of(coding)) {
    std::array<int8_t, kLargestBlock> q;
    return for_value_blocks(values.size(), *as, [&](size_t begin, size_t count) {
      const float scale = quantize(values.subspan(begin, count), *as, q.data());
      for (size_t i = 0; i < count; ++i) values[begin + i] = static_cast<float>(q[i]) * scale;
    });
  }
  const bool half = coding == ValueCoding::kF16;
  const float largest = half ? f32_from_f16(0x7bff) : f32_from_bf16(0x7f7f);
  for (float& x : values) {
    const float bounded = std::clamp(x, -largest, largest);
    x = half ? f32_from_f16(f16_from_f32(bounded)) : f32_from_bf16(bf16_from_f32(bounded));
  }
}

}  // namespace ndtrain
