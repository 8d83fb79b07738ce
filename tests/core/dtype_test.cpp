#include "framework/core/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

constexpr DType kAll[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI8,
                          DType::kU8,  DType::kI16, DType::kU16,  DType::kI32, DType::kU32,
                          DType::kI64, DType::kU64, DType::kBool};
const double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

// The definition of the two formats, for finite patterns.
double value_of(uint16_t bits, int mantissa_bits, int bias) {
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                    : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(DType, NamesAndSizesAgree) {
  for (DType t : kAll) EXPECT_EQ(dtype_named(name_of(t)), t);
  EXPECT_EQ(size_of(DType::kBF16), 2u);
  EXPECT_EQ(size_of(DType::kBool), 1u);
  EXPECT_EQ(size_of(DType::kU64), 8u);
  EXPECT_TRUE(is_float(DType::kBF16));
  EXPECT_FALSE(is_float(DType::kBool));
}

TEST(DType, WhatIsNoTypeIsRefused) {
  EXPECT_THROW(size_of(DType::kNone), Error);
  EXPECT_THROW(size_of(static_cast<DType>(77)), Error);
  EXPECT_THROW(name_of(static_cast<DType>(77)), Error);
  EXPECT_THROW(dtype_named("float32"), Error);
  EXPECT_THROW(dtype_named("none"), Error);
  EXPECT_THROW(dtype_named(""), Error);
}

TEST(Half, EveryPatternSurvivesTheRoundTrip) {
  for (int i = 0; i < 65536; ++i) {
    const auto h = static_cast<uint16_t>(i);
    ASSERT_EQ(f16_from_f32(f32_from_f16(h)), h) << "pattern " << i;
    if ((h & 0x7c00) != 0x7c00) {
      ASSERT_EQ(f32_from_f16(h), value_of(h, 10, 15)) << "pattern " << i;
    }
    if ((h & 0x7fff) > 0x7c00) {
      ASSERT_TRUE(std::isnan(f32_from_f16(h))) << "pattern " << i;
    }
  }
  EXPECT_EQ(f32_from_f16(0x7c00), kInf);
  EXPECT_EQ(f32_from_f16(0xfc00), -kInf);
}

TEST(Brain, EveryPatternSurvivesTheRoundTrip) {
  for (int i = 0; i < 65536; ++i) {
    const auto b = static_cast<uint16_t>(i);
    ASSERT_EQ(bf16_from_f32(f32_from_bf16(b)), b) << "pattern " << i;
    if ((b & 0x7f80) != 0x7f80) {
      ASSERT_EQ(f32_from_bf16(b), value_of(b, 7, 127)) << "pattern " << i;
    }
    if ((b & 0x7fff) > 0x7f80) {
      ASSERT_TRUE(std::isnan(f32_from_bf16(b))) << "pattern " << i;
    }
  }
}

// Between every two neighbours, infinity included: the middle goes to the even one, a hair to
// either side of it to the nearer one; for f32 and for doubles that f32 cannot tell from the
// middle.
template <typename From>
void check_rounding(From from_f32, DType type, uint16_t infinity, int mantissa_bits, int bias) {
  const float up = std::numeric_limits<float>::infinity();
  for (uint16_t low = 0; low < infinity; ++low) {
    const double below = value_of(low, mantissa_bits, bias);
    const double above = value_of(static_cast<uint16_t>(low + 1), mantissa_bits, bias);
    const auto middle = static_cast<float>((below + above) / 2);
    ASSERT_EQ(middle, (below + above) / 2);
    const auto next = static_cast<uint16_t>(low + 1);
    ASSERT_EQ(from_f32(middle), low % 2 == 0 ? low : next) << "above pattern " << low;
    ASSERT_EQ(from_f32(-middle), (low % 2 == 0 ? low : next) | 0x8000) << "above pattern " << low;
    ASSERT_EQ(from_f32(std::nextafter(middle, 0.0f)), low) << "above pattern " << low;
    ASSERT_EQ(from_f32(std::nextafter(middle, up)), next) << "above pattern " << low;
    const double m = middle;
    ASSERT_EQ(rounded(std::nextafter(m, 0.0), type), below) << "above pattern " << low;
    const double beyond = next == infinity ? kInf : above;
    ASSERT_EQ(rounded(std::nextafter(m, kInf), type), beyond) << "above pattern " << low;
    ASSERT_EQ(rounded(-std::nextafter(m, kInf), type), -beyond) << "above pattern " << low;
  }
}

TEST(Half, RoundsToNearestEven) { check_rounding(f16_from_f32, DType::kF16, 0x7c00, 10, 15); }
TEST(Brain, RoundsToNearestEven) { check_rounding(bf16_from_f32, DType::kBF16, 0x7f80, 7, 127); }

TEST(Half, NanStaysNanEvenWhenItsPayloadIsLost) {
  for (uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0xffffffffu}) {
    const float nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(f32_from_f16(f16_from_f32(nan)))) << std::hex << bits;
    EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(nan)))) << std::hex << bits;
    EXPECT_EQ(f16_from_f32(nan) >> 15, bits >> 31);
    EXPECT_EQ(bf16_from_f32(nan) >> 15, bits >> 31);
  }
}

TEST(Rounded, SingleAndDoubleKeepTheDouble) {
  EXPECT_EQ(rounded(0.1, DType::kF32), 0.1);
  EXPECT_EQ(rounded(1e300, DType::kF64), 1e300);
}

TEST(Rounded, IntegersTruncateAndWrap) {
  EXPECT_EQ(rounded(2.9, DType::kI32), 2);
  EXPECT_EQ(rounded(-2.9, DType::kI32), -2);
  EXPECT_EQ(rounded(127, DType::kI8), 127);
  EXPECT_EQ(rounded(128, DType::kI8), -128);
  EXPECT_EQ(rounded(300, DType::kU8), 44);
  EXPECT_EQ(rounded(-1, DType::kU8), 255);
  EXPECT_EQ(rounded(4294967295.0, DType::kI32), -1);
  EXPECT_EQ(rounded(-0.5, DType::kU64), 0);
  EXPECT_FALSE(std::signbit(rounded(-0.5, DType::kI32)));
}

TEST(Rounded, WhatNoIntegerHoldsSaturates) {
  EXPECT_EQ(rounded(kInf, DType::kI8), 127);
  EXPECT_EQ(rounded(-kInf, DType::kI8), -128);
  EXPECT_EQ(rounded(-kInf, DType::kU8), 0);
  EXPECT_EQ(rounded(1e30, DType::kU16), 65535);
  EXPECT_EQ(rounded(0x1p63, DType::kI64), 0x1p63);  // 2^63 - 1 as a double
  EXPECT_EQ(rounded(-0x1p63, DType::kI64), -0x1p63);
  EXPECT_EQ(rounded(0x1p64, DType::kU64), 0x1p64);
  EXPECT_EQ(rounded(kNan, DType::kI32), 0);
}

TEST(Rounded, BoolIsWhetherItIsNotZero) {
  EXPECT_EQ(rounded(0.25, DType::kBool), 1);
  EXPECT_EQ(rounded(-0.0, DType::kBool), 0);
  EXPECT_EQ(rounded(kNan, DType::kBool), 1);
}

TEST(Store, TheLargestIntegersSurviveLoadAndStore) {
  const int64_t limits[] = {INT64_MAX, INT64_MIN, -1};
  double doubles[3];
  load(limits, 3, DType::kI64, doubles);
  int64_t back[3];
  store(doubles, 3, DType::kI64, back);
  EXPECT_EQ(back[0], INT64_MAX);
  EXPECT_EQ(back[1], INT64_MIN);
  EXPECT_EQ(back[2], -1);
  const uint64_t most = UINT64_MAX;
  load(&most, 1, DType::kU64, doubles);
  uint64_t same = 0;
  store(doubles, 1, DType::kU64, &same);
  EXPECT_EQ(same, UINT64_MAX);
}

TEST(Store, WhatIsReadBackIsRounded) {
  const std::vector<double> values = {0,    -0.0, 1,    -1,   0.1,   -2.7, 65519.99, 65520, 1e-9,
                                      -300, 1e10, 1e20, 1e40, -1e40, kInf, -kInf,    128,   3e38};
  for (DType t : kAll) {
    std::vector<std::byte> bytes(values.size() * size_of(t) + 1);
    // Off by one byte: data in files is not aligned.
    store(values.data(), values.size(), t, bytes.data() + 1);
    std::vector<double> back(values.size());
    load(bytes.data() + 1, back.size(), t, back.data());
    for (size_t i = 0; i < values.size(); ++i) {
      const double expected = t == DType::kF32 ? static_cast<double>(static_cast<float>(values[i]))
                                               : rounded(values[i], t);
      EXPECT_EQ(back[i], expected) << name_of(t) << " of " << values[i];
    }
  }
}

TEST(Store, AnyNonZeroByteIsTrue) {
  const uint8_t bytes[] = {0, 1, 2, 255};
  double values[4];
  load(bytes, 4, DType::kBool, values);
  EXPECT_EQ(std::vector<double>(values, values + 4), (std::vector<double>{0, 1, 1, 1}));
}

TEST(Store, NothingHasNoType) {
  double x = 0;
  EXPECT_THROW(store(&x, 1, DType::kNone, &x), Error);
  EXPECT_THROW(load(&x, 1, DType::kNone, &x), Error);
}

}  // namespace
}  // namespace ndtrain
