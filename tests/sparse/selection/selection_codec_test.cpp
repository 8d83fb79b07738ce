#include "framework/sparse/selection/selection_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/core/rng.h"

namespace ndtrain {
namespace {

using testing::HasSubstr;

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
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    Selection expected = s;
    for (float& x : expected.values) {
      if (type == DType::kF16) x = f32_from_f16(f16_from_f32(x));
      if (type == DType::kBF16) x = f32_from_bf16(bf16_from_f32(x));
    }
    Selection back = with_values({5});
    const Status status = decode(encode(s, n, type), n, back);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(back, expected) << n << " " << name_of(type);
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

TEST(SelectionCodec, WritesIndicesInTheSmallestWay) {
  constexpr int64_t kElements = 16000;
  // One in a hundred: a byte each. Half: a bit for each element. Whole blocks: a byte for sixteen.
  const std::string few = encode(random(kElements, 0.01, 1), kElements, DType::kF32);
  EXPECT_EQ(coding_of(few), IndexCoding::kDeltas);
  const std::string half = encode(random(kElements, 0.5, 1), kElements, DType::kBF16);
  EXPECT_EQ(coding_of(half), IndexCoding::kBitmap);
  std::vector<uint32_t> indices;
  for (uint32_t block = 0; block < 1000; block += 50) {
    for (uint32_t i = 0; i < 16; ++i) indices.push_back(block * 16 + i);
  }
  indices.pop_back();  // one is cut
  const std::string blocks = encode(with_values(indices), kElements, DType::kF16);
  EXPECT_EQ(coding_of(blocks), IndexCoding::kBlocks);
  // Coding, type, count of 319 in two bytes; 20 blocks in a byte each, two for the one that is cut.
  EXPECT_EQ(blocks.size(), 4U + 20 + 2 + 2 * 319);
}

TEST(SelectionCodec, TellsEveryTruncationAndWhatFollows) {
  constexpr int64_t kElements = 400;
  for (const Selection& s :
       {random(kElements, 0.05, 1), random(kElements, 0.5, 1),
        with_values({16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31})}) {
    const std::string bytes = encode(s, kElements, DType::kF32);
    Selection out;
    for (size_t length = 0; length < bytes.size(); ++length) {
      const Status status = decode(std::string_view(bytes).substr(0, length), kElements, out);
      EXPECT_EQ(status.code(), Code::kCorrupt) << length;
    }
    EXPECT_EQ(decode(bytes + '\0', kElements, out).code(), Code::kCorrupt);
  }
}

TEST(SelectionCodec, OfAnyBytesGivesASelectionOrSaysWhatIsWrong) {
  constexpr int64_t kElements = 1003;
  Rng rng(1, "flips");
  int sound = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes =
        encode(random(kElements, round % 3 == 0 ? 0.3 : 0.02, round % 50), kElements, DType::kF16);
    for (uint64_t flips = 1 + rng.next_below(3); flips > 0; --flips) {
      bytes[rng.next_below(std::min<size_t>(bytes.size(), 40))] =
          static_cast<char>(rng.next_below(256));
    }
    Selection out;
    if (!decode(bytes, kElements, out).ok()) continue;
    ++sound;
    ASSERT_EQ(out.indices.size(), out.values.size());
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
  const auto type = static_cast<char>(DType::kF32);
  const std::string four(4, '\0');
  const std::string head = {0, type, 1};
  EXPECT_THAT(problem(head + std::string{9} + four, 9), HasSubstr("index 0 + 9 of a tensor"));
  EXPECT_THAT(problem(std::string{0, type, 10} + four, 9), HasSubstr("10 elements of 9"));
  EXPECT_THAT(problem(std::string{7, type, 1, 0} + four, 9), HasSubstr("in way 7"));
  EXPECT_THAT(problem(std::string{0, 0, 1, 0} + four, 9), HasSubstr("none"));
  EXPECT_THAT(problem(std::string{1, type, 1, 3, 0} + four, 9),
              HasSubstr("2 indices, said to be 1"));
  EXPECT_THAT(problem(std::string{1, type, 1, 0, 2} + four, 9), HasSubstr("beyond 9"));
  EXPECT_THAT(problem(std::string{2, type, 1, 1, 0, 0} + four, 9),
              HasSubstr("block 0 with elements 0"));
  EXPECT_THAT(problem(std::string{2, type, 1, 1, 0, 2} + four, 9),
              HasSubstr("block 0 with elements 512"));
  EXPECT_THAT(problem(std::string{2, type, 1, 4} + four, 9), HasSubstr("ends at 1"));
  // A count that lies about gigabytes takes none.
  EXPECT_THAT(problem(std::string{0, type, '\xff', '\xff', '\xff', '\xff', 15} + four,
                      limits::kSparseElements),
              HasSubstr("4294967295 elements of 4294967295 in 4 bytes"));
}

TEST(SelectionCodec, ValuesTravelAloneToThoseWhoKnowTheIndices) {
  const Selection s = with_values({3, 8, 9});
  Selection back;
  ASSERT_TRUE(decode_values(encode_values(s.values, DType::kF32), s.indices, back).ok());
  EXPECT_EQ(back, s);
  EXPECT_EQ(encode_values(s.values, DType::kBF16).size(), 7U);
  const Status fewer = decode_values(encode_values(s.values, DType::kF16), {1, 2}, back);
  EXPECT_EQ(fewer.message(), "sparse gradient: 6 bytes for 2 values of f16");
  EXPECT_EQ(decode_values("", {1}, back).code(), Code::kCorrupt);
  EXPECT_EQ(decode_values(std::string{99, 0, 0, 0, 0}, {1}, back).code(), Code::kCorrupt);
}

TEST(SelectionCodec, TakesTensorsUpToTheLimit) {
  EXPECT_THROW(encode({}, limits::kSparseElements + 1, DType::kF32), Error);
  EXPECT_THROW(encode({}, 0, DType::kF32), Error);
  EXPECT_THROW(encode({}, 5, DType::kI8), Error);
}

}  // namespace
}  // namespace ndtrain
