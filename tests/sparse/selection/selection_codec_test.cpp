#include "framework/sparse/selection/selection_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <tuple>

#include "framework/core/byte_reader.h"
#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/core/rng.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

Selection with_values(std::vector<uint32_t> indices, uint64_t seed = 1) {
  const Rng rng(seed, "values");
  Selection s{.indices = std::move(indices), .values = {}};
  for (size_t i = 0; i < s.indices.size(); ++i) {
    s.values.push_back(static_cast<float>(rng.normal(i)));
  }
  return s;
}

Selection random(int64_t n, double density, uint64_t seed) {
  const Rng rng(seed, "indices");
  std::vector<uint32_t> indices;
  for (int64_t i = 0; i < n; ++i) {
    if (rng.uniform(i) < density) indices.push_back(static_cast<uint32_t>(i));
  }
  return with_values(std::move(indices), seed);
}

IndexCoding coding_of(const std::string& bytes) { return static_cast<IndexCoding>(bytes[0]); }

void round_trip(const Selection& s, int64_t n) {
  for (const ValueCoding coding : value_codings()) {
    Selection expected = s;
    round_to_coding(expected.values, coding);
    Selection back = with_values({5});
    const Status status = decode(encode(s, n, coding), n, back);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(back, expected) << n << " " << name_of(coding);
  }
}

TEST(SelectionCodec, GivesBackWhatWasWrittenAtEverySize) {
  for (const int64_t n :
       {int64_t{1}, int64_t{15}, int64_t{16}, int64_t{17}, int64_t{32767}, int64_t{32768},
        int64_t{65535}, int64_t{65536}, limits::kSparseElements}) {
    const auto last = static_cast<uint32_t>(n - 1);
    round_trip({}, n);
    round_trip(with_values({last}), n);
    round_trip(with_values({0}), n);
    if (n > 1) round_trip(with_values({0, last}), n);
    if (n > 3) round_trip(with_values({0, 1, last - 1, last}), n);
    if (n > 70000) continue;
    for (const double density : {0.001, 0.01, 0.1, 0.2, 0.5, 0.9, 1.0}) {
      round_trip(random(n, density, n), n);
    }
  }
}

// The indices alone, in one of the ways that selection_codec.h describes.
std::string indices_by_hand(IndexCoding way, const std::vector<uint32_t>& indices, int64_t n) {
  std::string bytes;
  std::vector<bool> is_here(static_cast<size_t>(n + 16), false);
  for (const uint32_t i : indices) is_here[i] = true;
  if (way == IndexCoding::kDeltas) {
    uint64_t left_out = 0;
    for (int64_t i = 0; i < n; ++i) {
      left_out += is_here[i] ? 0 : 1;
      if (!is_here[i]) continue;
      put_varint(bytes, left_out);
      left_out = 0;
    }
  }
  for (int64_t i = 0; way == IndexCoding::kBitmap && i < n; i += 8) {
    unsigned byte = 0;
    for (int64_t bit = 0; bit < 8; ++bit) byte += is_here[i + bit] ? 1U << bit : 0;
    bytes += static_cast<char>(byte);
  }
  uint64_t left_out = 0;
  for (int64_t i = 0; way == IndexCoding::kBlocks && i < n; i += 16) {
    unsigned mask = 0, whole = 0;
    for (int64_t bit = 0; bit < 16 && i + bit < n; ++bit) {
      whole += 1U << bit;
      mask += is_here[i + bit] ? 1U << bit : 0;
    }
    left_out += mask == 0 ? 1 : 0;
    if (mask == 0) continue;
    put_varint(bytes, 2 * left_out + (mask == whole ? 0 : 1));
    if (mask != whole) bytes += {static_cast<char>(mask % 256), static_cast<char>(mask / 256)};
    left_out = 0;
  }
  return bytes;
}

std::string by_hand(IndexCoding way, const Selection& s, int64_t n, ValueCoding values) {
  std::string bytes = {static_cast<char>(way), static_cast<char>(values)};
  put_varint(bytes, s.indices.size());
  bytes += indices_by_hand(way, s.indices, n);
  put_values(bytes, s.values, values);
  return bytes;
}

// Also indices that are longer so than they have to be; and encode() takes the shortest.
TEST(SelectionCodec, ReadsValuesOfEveryCodingBehindIndicesOfEveryWay) {
  for (const int64_t n : {1, 2, 15, 16, 17, 255, 256, 257, 32767, 32768, 65535, 65536}) {
    for (const double density : {0.0, 0.005, 0.1, 0.5, 0.95, 1.0}) {
      const Selection s = random(n, density, static_cast<uint64_t>(n));
      for (const ValueCoding coding : value_codings()) {
        Selection expected = s;
        round_to_coding(expected.values, coding);
        std::string shortest;
        for (const IndexCoding way : {IndexCoding::kDeltas, IndexCoding::kBitmap,
                                      IndexCoding::kBlocks, IndexCoding::kAll}) {
          if (way == IndexCoding::kAll && std::ssize(s.indices) < n) continue;
          const std::string bytes = by_hand(way, s, n, coding);
          Selection back;
          const Status status = decode(bytes, n, back);
          ASSERT_TRUE(status.ok()) << status.message();
          ASSERT_EQ(back, expected) << n << " " << name_of(coding) << " way " << int{bytes[0]};
          if (shortest.empty() || bytes.size() < shortest.size()) shortest = bytes;
        }
        ASSERT_EQ(encode(s, n, coding), shortest) << n << " " << name_of(coding);
      }
    }
  }
}

TEST(SelectionCodec, WritesIndicesInTheSmallestWay) {
  constexpr int64_t kElements = 16000;
  // One in a hundred: a byte each. Half: a bit for each element. Whole blocks: a byte for sixteen.
  const std::string few = encode(random(kElements, 0.01, 1), kElements, ValueCoding::kF32);
  EXPECT_EQ(coding_of(few), IndexCoding::kDeltas);
  const std::string half = encode(random(kElements, 0.5, 1), kElements, ValueCoding::kBF16);
  EXPECT_EQ(coding_of(half), IndexCoding::kBitmap);
  std::vector<uint32_t> indices;
  for (uint32_t block = 0; block < 1000; block += 50) {
    for (uint32_t i = 0; i < 16; ++i) indices.push_back(block * 16 + i);
  }
  indices.pop_back();  // one is cut
  const std::string blocks = encode(with_values(indices), kElements, ValueCoding::kF16);
  EXPECT_EQ(coding_of(blocks), IndexCoding::kBlocks);
  // Coding, type, count of 319 in two bytes; 20 blocks in a byte each, two for the one that is cut.
  EXPECT_EQ(blocks.size(), 4U + 20 + 2 + 2 * 319);
}

TEST(SelectionCodec, WritesNoIndicesOfAllElements) {
  for (const int64_t n : {2, 15, 16, 17, 127, 128, 65536}) {
    for (const ValueCoding coding : value_codings()) {
      const std::string bytes = encode(random(n, 1, 3), n, coding);
      EXPECT_EQ(coding_of(bytes), IndexCoding::kAll);
      EXPECT_EQ(bytes.size(), 2 + varint_bytes(static_cast<uint64_t>(n)) +
                                  value_bytes(static_cast<uint64_t>(n), coding));
      Selection back;
      ASSERT_TRUE(decode(bytes, n, back).ok());
      EXPECT_EQ(std::ssize(back.indices), n);
      EXPECT_EQ(decode(bytes, n + 1, back).code(), Code::kCorrupt);
      EXPECT_EQ(decode(bytes, n - 1, back).code(), Code::kCorrupt);
    }
  }
  // One is a value, which is not longer than a value and its sign.
  EXPECT_EQ(coding_of(encode(with_values({0}), 1, ValueCoding::kF32)), IndexCoding::kAll);
}

// A value takes five bytes as an integer with its scale: signs have to be some to be shorter.
TEST(SelectionCodec, WritesSignsWhereTheyAreShorter) {
  for (const auto& [n, coding, way] : {std::tuple(2, ValueCoding::kInt8, IndexCoding::kSigns),
                                       std::tuple(2, ValueCoding::kInt4, IndexCoding::kAll),
                                       std::tuple(3, ValueCoding::kInt4, IndexCoding::kSigns),
                                       std::tuple(2, ValueCoding::kF16, IndexCoding::kSigns)}) {
    std::vector<uint32_t> indices(static_cast<size_t>(n));
    std::iota(indices.begin(), indices.end(), 0);
    Selection s{.indices = indices, .values = std::vector<float>(indices.size(), 3)};
    s.values[1] = -3;
    const std::string bytes = encode(s, n, coding);
    EXPECT_EQ(coding_of(bytes), way) << n << " " << name_of(coding);
    Selection back;
    ASSERT_TRUE(decode(bytes, n, back).ok());
    EXPECT_EQ(back, s);
  }
}

TEST(SelectionCodec, TellsEveryTruncationAndWhatFollows) {
  constexpr int64_t kElements = 400;
  for (const Selection& s :
       {random(kElements, 0.05, 1), random(kElements, 0.5, 1), random(kElements, 1, 1),
        with_values({16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31})}) {
    for (const ValueCoding coding : value_codings()) {
      const std::string bytes = encode(s, kElements, coding);
      Selection out;
      ASSERT_TRUE(decode(bytes, kElements, out).ok());
      for (size_t length = 0; length < bytes.size(); ++length) {
        const Status status = decode(std::string_view(bytes).substr(0, length), kElements, out);
        EXPECT_EQ(status.code(), Code::kCorrupt) << name_of(coding) << " " << length;
      }
      EXPECT_EQ(decode(bytes + '\0', kElements, out).code(), Code::kCorrupt);
    }
  }
}

TEST(SelectionCodec, OfAnyBytesGivesASelectionOrSaysWhatIsWrong) {
  constexpr int64_t kElements = 1003;
  Rng rng(1, "flips");
  int sound = 0;
  for (int round = 0; round < 5000; ++round) {
    const ValueCoding coding = value_codings()[static_cast<size_t>(round) % value_codings().size()];
    std::string bytes =
        encode(random(kElements, round % 3 == 0 ? 0.3 : 0.02, round % 50), kElements, coding);
    const size_t reach = round % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 40);
    for (uint64_t flips = 1 + rng.next_below(3); flips > 0; --flips) {
      bytes[rng.next_below(reach)] = static_cast<char>(rng.next_below(256));
    }
    Selection out;
    if (!decode(bytes, kElements, out).ok()) continue;
    ++sound;
    ASSERT_EQ(out.indices.size(), out.values.size());
    const bool are_integers = bytes[1] == static_cast<char>(ValueCoding::kInt8) ||
                              bytes[1] == static_cast<char>(ValueCoding::kInt4);
    for (const float x : out.values) ASSERT_TRUE(!are_integers || std::isfinite(x));
    for (size_t i = 0; i < out.indices.size(); ++i) {
      ASSERT_LT(out.indices[i], kElements);
      ASSERT_TRUE(i == 0 || out.indices[i - 1] < out.indices[i]);
    }
  }
  EXPECT_GT(sound, 0);
}

std::string problem(const std::string& bytes, int64_t n) {
  Selection out;
  const Status status = decode(bytes, n, out);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  return status.message();
}

TEST(SelectionCodec, SaysWhichValueIsOut) {
  const auto type = static_cast<char>(ValueCoding::kF32);
  const std::string four(4, '\0');
  const std::string head = {0, type, 1};
  EXPECT_THAT(problem(head + std::string{9} + four, 9), HasSubstr("index 0 + 9 of a tensor"));
  EXPECT_THAT(problem(std::string{0, type, 10} + four, 9), HasSubstr("10 elements of 9"));
  EXPECT_THAT(problem(std::string{7, type, 1, 0} + four, 9), HasSubstr("in way 7"));
  EXPECT_THAT(problem(std::string{0, 0, 1, 0} + four, 9), HasSubstr("values are written in way 0"));
  EXPECT_THAT(problem(std::string{1, type, 1, 3, 0} + four, 9),
              HasSubstr("2 indices, said to be 1"));
  EXPECT_THAT(problem(std::string{1, type, 1, 0, 2} + four, 9), HasSubstr("beyond 9"));
  EXPECT_THAT(problem(std::string{2, type, 1, 1, 0, 0} + four, 9),
              HasSubstr("block 0 with elements 0"));
  EXPECT_THAT(problem(std::string{2, type, 1, 1, 0, 2} + four, 9),
              HasSubstr("block 0 with elements 512"));
  EXPECT_THAT(problem(std::string{2, type, 1, 4} + four, 9), HasSubstr("ends at 1"));
  EXPECT_THAT(problem(std::string{4, type, 1} + four, 9), HasSubstr("all of 9 elements are 1"));
  EXPECT_THAT(problem(std::string{4, type, 1, 0} + four, 1), HasSubstr("5 bytes for 1 values"));
  EXPECT_THAT(problem(std::string{5, type, 1, 0} + four, 9), HasSubstr("in way 5"));
  // A count that lies about gigabytes takes none.
  EXPECT_THAT(problem(std::string{0, type, '\xff', '\xff', '\xff', '\xff', 15} + four,
                      limits::kSparseElements),
              HasSubstr("4294967295 elements of 4294967295 in 4 bytes"));
  // Of integers: a value and its scale take five bytes, and all of a block have one.
  for (const ValueCoding coding : {ValueCoding::kInt8, ValueCoding::kInt4}) {
    const auto number = static_cast<char>(coding);
    Selection out;
    EXPECT_TRUE(decode(std::string{0, number, 1, 0} + four + '\0', 9, out).ok());
    EXPECT_THAT(problem(std::string{0, number, 1} + four, 9), HasSubstr("1 elements of 9 in 4"));
    EXPECT_THAT(problem(std::string{0, number, 2, 0, 0} + four, 9), HasSubstr("values of int"));
    EXPECT_THAT(problem(std::string{0, number, 1, 0, 0, 0, '\xc0', '\x7f', 0}, 9),
                HasSubstr("a scale of nan"));
    EXPECT_THAT(problem(std::string{0, number, 1, 0, 0, 0, '\x80', '\xbf', 0}, 9),
                HasSubstr("a scale of -1"));
  }
}

TEST(SelectionCodec, ValuesTravelAloneToThoseWhoKnowTheIndices) {
  const Selection s = with_values({3, 8, 9});
  Selection back;
  ASSERT_TRUE(decode_values(encode_values(s.values, ValueCoding::kF32), s.indices, back).ok());
  EXPECT_EQ(back, s);
  EXPECT_EQ(encode_values(s.values, ValueCoding::kBF16).size(), 7U);
  EXPECT_EQ(encode_values(s.values, ValueCoding::kInt8).size(), 8U);
  EXPECT_EQ(encode_values(s.values, ValueCoding::kInt4).size(), 7U);
  const Status fewer = decode_values(encode_values(s.values, ValueCoding::kF16), {1, 2}, back);
  EXPECT_EQ(fewer.message(), "sparse gradient: 6 bytes for 2 values of f16");
  EXPECT_EQ(decode_values("", {1}, back).code(), Code::kCorrupt);
  EXPECT_EQ(decode_values(std::string{99, 0, 0, 0, 0}, {1}, back).code(), Code::kCorrupt);
}

TEST(SelectionCodec, TakesTensorsUpToTheLimit) {
  EXPECT_THROW(encode({}, limits::kSparseElements + 1, ValueCoding::kF32), Error);
  EXPECT_THROW(encode({}, 0, ValueCoding::kF32), Error);
}

}  // namespace
}  // namespace ndtrain
