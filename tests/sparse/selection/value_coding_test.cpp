// What values travel as: against a quantizer in double, and bytes written by hand.
#include "framework/sparse/selection/value_coding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "framework/core/dtype.h"
#include "framework/core/error.h"
#include "tests/sparse/selection/gradients.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr ValueCoding kIntegers[] = {ValueCoding::kInt8, ValueCoding::kInt4};
constexpr int64_t kSizes[] = {0,   1,   2,   15,   16,    17,    63,    64,   65,
                              255, 256, 257, 1000, 32767, 32768, 65535, 65536};

int64_t block_of(ValueCoding coding) { return coding == ValueCoding::kInt8 ? 256 : 64; }
int most_of(ValueCoding coding) { return coding == ValueCoding::kInt8 ? 127 : 7; }

std::string written(std::span<const float> values, ValueCoding coding) {
  std::string bytes;
  put_values(bytes, values, coding);
  return bytes;
}

std::vector<float> read(const std::string& bytes, uint64_t count, ValueCoding coding) {
  std::vector<float> values;
  get_values(bytes, count, coding, values);
  return values;
}

std::string refusal(const std::string& bytes, uint64_t count, ValueCoding coding) {
  try {
    read(bytes, count, coding);
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

// Half to even, of a double: by its distances to the two next integers.
int nearest(double x) {
  const double below = std::floor(x), distance = x - below;
  if (distance != 0.5) return static_cast<int>(distance < 0.5 ? below : below + 1);
  return static_cast<int>(std::fmod(below, 2) == 0 ? below : below + 1);
}

struct OracleBlock {
  float scale = 0;
  std::vector<int> integers;
};

std::vector<OracleBlock> oracle(std::span<const float> values, ValueCoding coding) {
  std::vector<OracleBlock> blocks;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % static_cast<size_t>(block_of(coding)) == 0) blocks.emplace_back();
    const double x = std::abs(double{values[i]});
    const auto scale = static_cast<float>(x / most_of(coding));
    if (std::isfinite(x)) blocks.back().scale = std::max(blocks.back().scale, scale);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    OracleBlock& block = blocks[i / static_cast<size_t>(block_of(coding))];
    if (block.scale < std::numeric_limits<float>::min()) block.scale = 0;
    const double x = values[i];
    int q = 0;
    if (block.scale > 0 && !std::isnan(x)) {
      q = std::isinf(x) ? (x > 0 ? 1 : -1) * most_of(coding) : nearest(x / double{block.scale});
    }
    block.integers.push_back(q);
  }
  return blocks;
}

void append(std::string& to, float scale) {
  char bytes[sizeof(float)];  // tests run where floats are little-endian
  std::memcpy(bytes, &scale, sizeof scale);
  to.append(bytes, sizeof bytes);
}

// As the header has it, byte by byte.
std::string oracle_bytes(const std::vector<OracleBlock>& blocks, ValueCoding coding) {
  std::string bytes;
  for (const OracleBlock& block : blocks) {
    append(bytes, block.scale);
    for (size_t i = 0; i < block.integers.size(); ++i) {
      const int q = block.integers[i];
      if (coding == ValueCoding::kInt8) {
        bytes += static_cast<char>(q);
      } else if (i % 2 == 0) {
        bytes += static_cast<char>((q + 16) % 16);
      } else {
        bytes.back() = static_cast<char>(bytes.back() + (q + 16) % 16 * 16);
      }
    }
  }
  return bytes;
}

// Of many magnitudes: gradients, exact multiples of a scale and halves between, and huge and small.
std::vector<float> values_of(int64_t n, uint64_t seed) {
  const Rng rng(seed, "values");
  std::vector<float> values = gradient(n, seed);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t kind = rng.bits(3 * i) % 8;
    const auto half = static_cast<float>(static_cast<int64_t>(rng.bits(3 * i + 1) % 27) - 13) / 2;
    if (kind == 0) values[i] = half;
    if (i / 256 % 3 == 1) values[i] *= 1e30F;
    if (i / 256 % 3 == 2) values[i] *= 1e-30F;
    if (i % 512 == 0) values[i] = 127;  // a scale of 1: halves are ties
    if (i % 512 / 64 == 1) values[i] = i % 64 == 0 ? -7 : std::clamp(values[i], -7.0F, 7.0F);
  }
  return values;
}

TEST(ValueCoding, IntegersAreThoseOfAQuantizerInDouble) {
  for (const ValueCoding coding : kIntegers) {
    int ties = 0;
    for (const int64_t n : kSizes) {
      for (uint64_t seed = 0; seed < 4; ++seed) {
        const std::vector<float> values = values_of(n, seed);
        const auto blocks = oracle(values, coding);
        ASSERT_EQ(written(values, coding), oracle_bytes(blocks, coding)) << n << " seed " << seed;
        for (size_t i = 0; i < values.size(); ++i) {
          const auto block = static_cast<size_t>(block_of(coding));
          const double scaled = double{values[i]} / double{blocks[i / block].scale};
          ties += scaled - std::floor(scaled) == 0.5 ? 1 : 0;
        }
      }
    }
    EXPECT_GT(ties, 1000);
  }
}

TEST(ValueCoding, WhatIsReceivedIsWithinHalfAScale) {
  for (const ValueCoding coding : kIntegers) {
    for (const int64_t n : kSizes) {
      const std::vector<float> values = values_of(n, 5);
      const auto blocks = oracle(values, coding);
      const std::vector<float> back =
          read(written(values, coding), static_cast<uint64_t>(n), coding);
      ASSERT_EQ(std::ssize(back), n);
      for (size_t i = 0; i < values.size(); ++i) {
        const double scale = blocks[i / static_cast<size_t>(block_of(coding))].scale;
        // And two roundings of the product, of values up to most_of() scales.
        const double bound = scale * (0.5 + most_of(coding) * 0x1p-23);
        ASSERT_LE(std::abs(double{values[i]} - double{back[i]}), bound) << n << " number " << i;
      }
    }
  }
}

TEST(ValueCoding, RoundedValuesAreTheReceivedOnesAndStay) {
  for (const ValueCoding coding : value_codings()) {
    for (const int64_t n : kSizes) {
      const std::vector<float> values = values_of(n, 6);
      std::vector<float> bounded = values;
      if (coding == ValueCoding::kF16) {
        for (float& x : bounded) x = std::clamp(x, -65504.0F, 65504.0F);
      }
      std::vector<float> rounded = values;
      round_to_coding(rounded, coding);
      const std::string bytes = written(bounded, coding);
      ASSERT_EQ(read(bytes, static_cast<uint64_t>(n), coding), rounded) << name_of(coding) << n;
      ASSERT_EQ(written(rounded, coding), bytes) << name_of(coding) << n;
      // What rounding leaves is a float: nothing is lost.
      for (size_t i = 0; i < values.size(); ++i) {
        if (values[i] != bounded[i]) continue;
        ASSERT_EQ(double{values[i]} - double{rounded[i]}, double{values[i] - rounded[i]});
      }
    }
  }
}

// The scale of what was received is the scale again, though it is rounded twice: for any magnitude.
TEST(ValueCoding, ABlockIsRoundedOnceWhateverItsLargestIs) {
  for (const ValueCoding coding : kIntegers) {
    for (uint32_t bits = 0; bits < 0x7f800000; bits += 4001) {
      for (const uint32_t near : {bits, bits | 0x7f}) {
        std::vector<float> values = {std::bit_cast<float>(near)};
        round_to_coding(values, coding);
        std::vector<float> again = values;
        round_to_coding(again, coding);
        ASSERT_EQ(again, values) << "bits " << near;
        ASSERT_TRUE(std::isfinite(values[0])) << "bits " << near;
      }
    }
  }
}

TEST(ValueCoding, TakesAsManyBytesAsDocumented) {
  struct Case {
    ValueCoding coding;
    uint64_t count, bytes;
  };
  const Case cases[] = {{ValueCoding::kF32, 257, 1028},
                        {ValueCoding::kF16, 257, 514},
                        {ValueCoding::kBF16, 257, 514},
                        {ValueCoding::kInt8, 0, 0},
                        {ValueCoding::kInt8, 1, 4 + 1},
                        {ValueCoding::kInt8, 256, 4 + 256},
                        {ValueCoding::kInt8, 257, 8 + 257},
                        {ValueCoding::kInt4, 0, 0},
                        {ValueCoding::kInt4, 1, 4 + 1},
                        {ValueCoding::kInt4, 2, 4 + 1},
                        {ValueCoding::kInt4, 64, 4 + 32},
                        {ValueCoding::kInt4, 65, 8 + 33},
                        {ValueCoding::kInt4, 129, 3 * 4 + 65},
                        {ValueCoding::kInt8, 65536, 65536 + 256 * 4},
                        {ValueCoding::kInt4, 65536, 32768 + 1024 * 4}};
  for (const Case& c : cases) {
    EXPECT_EQ(value_bytes(c.count, c.coding), c.bytes) << name_of(c.coding) << " " << c.count;
    EXPECT_EQ(written(std::vector<float>(c.count, 1), c.coding).size(), c.bytes);
  }
  EXPECT_EQ(value_bytes(4294967295, ValueCoding::kInt8), 4294967295 + 4 * uint64_t{1 << 24});
}

TEST(ValueCoding, BytesByHand) {
  std::string int8, int4;
  append(int8, 2);
  int8 += std::string{127, -127, 0, 2, -1, 1};
  EXPECT_EQ(written(std::vector<float>{254, -254, 1, 3, -2.5F, 2.5F}, ValueCoding::kInt8), int8);
  EXPECT_EQ(read(int8, 6, ValueCoding::kInt8), (std::vector<float>{254, -254, 0, 4, -2, 2}));
  append(int4, 0.5F);
  int4 += std::string{'\x97', '\x0e'};  // 7, -7, -2, and nothing
  EXPECT_EQ(written(std::vector<float>{3.5F, -3.5F, -0.75F}, ValueCoding::kInt4), int4);
  EXPECT_EQ(read(int4, 3, ValueCoding::kInt4), (std::vector<float>{3.5F, -3.5F, -1}));
}

TEST(ValueCoding, BlocksHaveScalesOfTheirOwn) {
  for (const ValueCoding coding : kIntegers) {
    std::vector<float> values(static_cast<size_t>(2 * block_of(coding) + 1), 0);
    values[3] = 1e20F;
    values.back() = -1e-20F;
    std::vector<float> rounded = values;
    round_to_coding(rounded, coding);
    EXPECT_FLOAT_EQ(rounded[3], 1e20F);
    EXPECT_FLOAT_EQ(rounded.back(), -1e-20F);
    // The one between is of zeros: a scale of 0, and zeros.
    const size_t begin = value_bytes(static_cast<uint64_t>(block_of(coding)), coding);
    EXPECT_EQ(written(values, coding).substr(begin, begin), std::string(begin, '\0'));
  }
}

TEST(ValueCoding, OfWhatIsNotFiniteAndOfTheSmallest) {
  for (const ValueCoding coding : kIntegers) {
    const auto most = static_cast<float>(most_of(coding));
    std::vector<float> values = {NAN, most, kInfinity, -kInfinity, -1};
    round_to_coding(values, coding);
    EXPECT_EQ(values, (std::vector<float>{0, most, most, -most, -1}));
    values = {kInfinity, NAN};
    round_to_coding(values, coding);
    EXPECT_EQ(values, (std::vector<float>{0, 0}));
    const float largest = std::numeric_limits<float>::max();
    values = {largest, -largest};
    round_to_coding(values, coding);
    EXPECT_GE(values[0], largest * (1 - 0x1p-22F));
    EXPECT_LE(values[0], largest);
    EXPECT_EQ(values[1], -values[0]);
    EXPECT_EQ(read(written(values, coding), 2, coding), values);
    const float least = std::numeric_limits<float>::min();
    values = {most * least};
    round_to_coding(values, coding);
    EXPECT_EQ(values[0], most * least);
    values = {(most - 1) * least};
    EXPECT_EQ(written(values, coding), std::string(5, '\0'));
  }
}

TEST(ValueCoding, RefusesScalesAndIntegersThatNobodyWrites) {
  for (const ValueCoding coding : kIntegers) {
    const auto with_scale = [](float scale, char q) {
      std::string bytes;
      append(bytes, scale);
      return bytes + q;
    };
    EXPECT_EQ(refusal(with_scale(1, 1), 1, coding), "none");
    EXPECT_EQ(refusal(with_scale(std::numeric_limits<float>::min(), 1), 1, coding), "none");
    EXPECT_EQ(refusal(with_scale(0, 0), 1, coding), "none");
    for (const float scale : {kInfinity, -kInfinity, NAN, -1.0F, -0.0F, 1e-45F, -1e-45F,
                              std::numeric_limits<float>::max(), 1e38F}) {
      EXPECT_THAT(refusal(with_scale(scale, 0), 1, coding), HasSubstr("a scale of")) << scale;
    }
    EXPECT_THAT(refusal(with_scale(0, 1), 1, coding), HasSubstr("a value of 1 scales of 0"));
  }
  std::string bytes;
  append(bytes, 1);
  EXPECT_THAT(refusal(bytes + '\x80', 1, ValueCoding::kInt8), HasSubstr("a value of -128"));
  EXPECT_THAT(refusal(bytes + '\x08', 1, ValueCoding::kInt4), HasSubstr("a value of -8"));
  EXPECT_THAT(refusal(bytes + '\x80', 2, ValueCoding::kInt4), HasSubstr("a value of -8"));
  EXPECT_EQ(refusal(bytes + '\x97', 2, ValueCoding::kInt4), "none");
  EXPECT_THAT(refusal(bytes + '\x17', 1, ValueCoding::kInt4), HasSubstr("half a byte is over"));
}

TEST(ValueCoding, RefusesEveryOtherLength) {
  for (const ValueCoding coding : value_codings()) {
    const std::string bytes = written(values_of(300, 1), coding);
    for (size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_NE(refusal(bytes.substr(0, length), 300, coding), "none") << length;
    }
    EXPECT_NE(refusal(bytes + '\0', 300, coding), "none");
    EXPECT_EQ(refusal(bytes, 300, coding), "none");
    EXPECT_NE(refusal(bytes, 0, coding), "none");
  }
}

TEST(ValueCoding, NamesAndNumbersAreThoseThatTravel) {
  const std::pair<std::string_view, int> all[] = {
      {"f32", 1}, {"f16", 2}, {"bf16", 3}, {"int8", 4}, {"int4", 5}};
  ASSERT_EQ(value_codings().size(), std::size(all));
  for (const auto& [name, number] : all) {
    EXPECT_EQ(static_cast<int>(value_coding_named(name)), number);
    EXPECT_EQ(name_of(value_coding_numbered(static_cast<uint8_t>(number))), name);
  }
  // The floats' are those of DType, as they were before there were integers.
  EXPECT_EQ(static_cast<int>(DType::kF32), 1);
  EXPECT_EQ(static_cast<int>(DType::kF16), 2);
  EXPECT_EQ(static_cast<int>(DType::kBF16), 3);
  EXPECT_THROW(value_coding_numbered(0), Error);
  EXPECT_THROW(value_coding_numbered(6), Error);
  try {
    value_coding_named("i8");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "there are f32, f16, bf16, int8 and int4");
  }
}

}  // namespace
}  // namespace ndtrain
