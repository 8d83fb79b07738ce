#include "framework/sparse/selection/selection_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <ostream>

#include "framework/core/byte_reader.h"
#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/sparse/selection/little_endian.h"
#include "framework/sparse/selection/magnitude.h"
#include "framework/sparse/selection/scan.h"

namespace ndtrain {
namespace {

int64_t bitmap_bytes(int64_t n) { return (n + 7) / 8; }

// Which elements of block number `block` there are in a tensor of n.
uint16_t whole_block(int64_t block, int64_t n) {
  const int64_t size = std::min<int64_t>(kBlockElements, n - block * kBlockElements);
  return static_cast<uint16_t>((uint32_t{1} << size) - 1);
}

// f(block, which of its elements) for each block that has any.
template <typename F>
void for_blocks(const std::vector<uint32_t>& indices, const F& f) {
  for (size_t i = 0; i < indices.size();) {
    const uint32_t block = indices[i] / kBlockElements;
    unsigned mask = 0;
    for (; i < indices.size() && indices[i] / kBlockElements == block; ++i) {
      mask |= 1U << indices[i] % kBlockElements;
    }
    f(int64_t{block}, static_cast<uint16_t>(mask));
  }
}

int64_t delta_bytes(const std::vector<uint32_t>& indices) {
  int64_t bytes = 0, next = 0;
  for (const uint32_t i : indices) {
    bytes += static_cast<int64_t>(varint_bytes(i - next));
    next = int64_t{i} + 1;
  }
  return bytes;
}

int64_t block_bytes(const std::vector<uint32_t>& indices, int64_t n) {
  int64_t bytes = 0, next = 0;
  for_blocks(indices, [&](int64_t block, uint16_t mask) {
    const bool part = mask != whole_block(block, n);
    bytes += static_cast<int64_t>(varint_bytes(2 * (block - next) + (part ? 1 : 0)));
    bytes += part ? 2 : 0;
    next = block + 1;
  });
  return bytes;
}

bool are_signs(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(),
                     [first = values[0]](float x) { return magnitude(x) == magnitude(first); });
}

IndexCoding smallest(const Selection& s, int64_t n, ValueCoding values) {
  const std::vector<uint32_t>& indices = s.indices;
  if (std::ssize(indices) == n) {
    const uint64_t signs = value_bytes(1, values) + bitmap_bytes(n);
    return signs <= value_bytes(n, values) && are_signs(s.values) ? IndexCoding::kSigns
                                                                  : IndexCoding::kAll;
  }
  const std::array<int64_t, 3> bytes = {delta_bytes(indices), bitmap_bytes(n),
                                        block_bytes(indices, n)};
  return static_cast<IndexCoding>(std::min_element(bytes.begin(), bytes.end()) - bytes.begin());
}

void put_deltas(std::string& to, const std::vector<uint32_t>& indices) {
  int64_t next = 0;
  for (const uint32_t i : indices) {
    put_varint(to, i - next);
    next = int64_t{i} + 1;
  }
}

void put_bitmap(std::string& to, const std::vector<uint32_t>& indices, int64_t n) {
  const size_t begin = to.size();
  to.resize(begin + bitmap_bytes(n), '\0');
  for (const uint32_t i : indices) {
    char& byte = to[begin + i / 8];
    byte = static_cast<char>(static_cast<uint8_t>(byte) | 1U << i % 8);
  }
}

void put_blocks(std::string& to, const std::vector<uint32_t>& indices, int64_t n) {
  int64_t next = 0;
  for_blocks(indices, [&](int64_t block, uint16_t mask) {
    const bool part = mask != whole_block(block, n);
    put_varint(to, 2 * (block - next) + (part ? 1 : 0));
    if (part) put_le(to, mask);
    next = block + 1;
  });
}

// Number `next` and the `skipped` after it are left out: the one that follows, of `all`.
int64_t after(int64_t next, uint64_t skipped, int64_t all) {
  if (skipped >= static_cast<uint64_t>(all - next)) {
    throw Error("index ", next, " + ", skipped, " of a tensor that ends at ", all);
  }
  return next + static_cast<int64_t>(skipped);
}

void get_deltas(ByteReader& in, int64_t n, uint64_t count, std::vector<uint32_t>& to) {
  int64_t next = 0;
  for (uint64_t k = 0; k < count; ++k) {
    const int64_t i = after(next, in.varint(), n);
    to.push_back(static_cast<uint32_t>(i));
    next = i + 1;
  }
}

void add_bits(int64_t first, unsigned mask, std::vector<uint32_t>& to) {
  for (; mask != 0; mask &= mask - 1) {
    to.push_back(static_cast<uint32_t>(first + std::countr_zero(mask)));
  }
}

void get_bitmap(ByteReader& in, int64_t n, std::vector<uint32_t>& to) {
  const std::string_view bits = in.bytes(bitmap_bytes(n));
  const auto last = static_cast<uint8_t>(bits.back());
  if (n % 8 != 0 && last >> n % 8 != 0) throw Error("a bitmap with elements beyond ", n);
  for (size_t b = 0; b < bits.size(); ++b) {
    add_bits(static_cast<int64_t>(b) * 8, static_cast<uint8_t>(bits[b]), to);
  }
}

void get_blocks(ByteReader& in, int64_t n, uint64_t count, std::vector<uint32_t>& to) {
  const int64_t blocks = (n + kBlockElements - 1) / kBlockElements;
  int64_t next = 0;
  while (to.size() < count) {
    const uint64_t code = in.varint();
    const int64_t block = after(next, code / 2, blocks);
    uint16_t mask = whole_block(block, n);
    if (code % 2 != 0) {
      const auto part = get_le<uint16_t>(in.bytes(2).data());
      if (part == 0 || (part & ~mask) != 0) throw Error("block ", block, " with elements ", part);
      mask = part;
    }
    add_bits(block * kBlockElements, mask, to);
    next = block + 1;
  }
}

void get_all(int64_t n, std::vector<uint32_t>& to) {
  to.resize(n);
  std::iota(to.begin(), to.end(), 0);
}

void put_signs(std::string& to, std::span<const float> values, ValueCoding coding) {
  put_values(to, std::array{of_magnitude(magnitude(values[0]))}, coding);
  std::vector<uint32_t> negative;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::signbit(values[i])) negative.push_back(static_cast<uint32_t>(i));
  }
  put_bitmap(to, negative, static_cast<int64_t>(values.size()));
}

void get_signs(ByteReader& in, int64_t n, ValueCoding coding, Selection& out) {
  std::vector<float> value;
  get_values(in.bytes(value_bytes(1, coding)), 1, coding, value);
  if (std::signbit(value[0])) throw Error("signs of a magnitude that has one, ", value[0]);
  std::vector<uint32_t> negative;
  get_bitmap(in, n, negative);
  get_all(n, out.indices);
  out.values.assign(n, value[0]);
  for (const uint32_t i : negative) out.values[i] = -value[0];
}

void check_elements(int64_t n) {
  if (n < 1 || n > limits::kSparseElements) throw Error("selection: of ", n, " elements");
}

ValueCoding get_coding(ByteReader& in) {
  return value_coding_numbered(static_cast<uint8_t>(in.bytes(1)[0]));
}

void read(ByteReader in, int64_t n, Selection& out) {
  const auto way = static_cast<uint8_t>(in.bytes(1)[0]);
  const ValueCoding values = get_coding(in);
  const uint64_t count = in.varint();
  if (static_cast<IndexCoding>(way) == IndexCoding::kSigns) {
    if (count != static_cast<uint64_t>(n)) throw Error("signs of ", count, " elements of ", n);
    if (in.size() != value_bytes(1, values) + bitmap_bytes(n)) {
      throw Error(in.size(), " bytes for signs of ", n, " elements");
    }
    return get_signs(in, n, values, out);
  }
  if (count > static_cast<uint64_t>(n) || value_bytes(count, values) > in.size()) {
    throw Error(count, " elements of ", n, " in ", in.size(), " bytes");
  }
  out.indices.reserve(count);
  switch (static_cast<IndexCoding>(way)) {
    case IndexCoding::kDeltas:
      get_deltas(in, n, count, out.indices);
      break;
    case IndexCoding::kBitmap:
      get_bitmap(in, n, out.indices);
      break;
    case IndexCoding::kBlocks:
      get_blocks(in, n, count, out.indices);
      break;
    case IndexCoding::kAll:
      if (count != static_cast<uint64_t>(n)) throw Error("all of ", n, " elements are ", count);
      get_all(n, out.indices);
      break;
    default:
      throw Error("indices are written in way ", int{way}, ", which there is not");
  }
  if (out.indices.size() != count) {
    throw Error(out.indices.size(), " indices, said to be ", count);
  }
  get_values(in.rest(), count, values, out.values);
}

}  // namespace

std::string encode(const Selection& s, int64_t n, ValueCoding values) {
  check_elements(n);
  const IndexCoding coding = smallest(s, n, values);
  std::string to;
  put_le(to, static_cast<uint8_t>(coding));
  put_le(to, static_cast<uint8_t>(values));
  put_varint(to, s.indices.size());
  if (coding == IndexCoding::kDeltas) put_deltas(to, s.indices);
  if (coding == IndexCoding::kBitmap) put_bitmap(to, s.indices, n);
  if (coding == IndexCoding::kBlocks) put_blocks(to, s.indices, n);
  if (coding == IndexCoding::kSigns) {
    put_signs(to, s.values, values);
  } else {
    put_values(to, s.values, values);
  }
  return to;
}

Status decode(std::string_view bytes, int64_t n, Selection& out) {
  check_elements(n);
  out.indices.clear();
  out.values.clear();
  try {
    read(ByteReader(bytes), n, out);
  } catch (const Error& e) {
    return {Code::kCorrupt, std::string("sparse gradient: ") + e.what()};
  }
  return {};
}

std::string encode_values(std::span<const float> values, ValueCoding coding) {
  std::string to;
  put_le(to, static_cast<uint8_t>(coding));
  put_values(to, values, coding);
  return to;
}

Status decode_values(std::string_view bytes, std::vector<uint32_t> indices, Selection& out) {
  out.indices = std::move(indices);
  out.values.clear();
  try {
    ByteReader in(bytes);
    const ValueCoding coding = get_coding(in);
    get_values(in.rest(), out.indices.size(), coding, out.values);
  } catch (const Error& e) {
    return {Code::kCorrupt, std::string("sparse gradient: ") + e.what()};
  }
  return {};
}

}  // namespace ndtrain
