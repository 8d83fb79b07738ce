#include "ndp/wire/numbers.h"

#include <gtest/gtest.h>

#include "framework/core/rng.h"

namespace ndtrain::ndp {
namespace {

using Numbers = std::vector<uint64_t>;

Code code_of(std::string_view text, uint64_t end = UINT64_MAX, size_t limit = 100) {
  return unpack_numbers(text, end, limit).status().code();
}

TEST(Numbers, ComeBackAsTheyWere) {
  for (const Numbers& n : {Numbers{}, Numbers{0}, Numbers{0, 1, 2}, Numbers{127, 128, 129, 16512},
                           Numbers{5, uint64_t{1} << 40, UINT64_MAX - 1}}) {
    EXPECT_EQ(unpack_numbers(pack_numbers(n), UINT64_MAX, 100).or_throw(), n);
  }
}

TEST(Numbers, NeighboursTakeOneByteEach) {
  Numbers n;
  for (uint64_t i = 1000; i < 2000; ++i) n.push_back(i * 3);
  EXPECT_LE(pack_numbers(n).size(), n.size() + 1);
}

TEST(Numbers, ThatDoNotRiseAreABug) {
  EXPECT_THROW(pack_numbers(Numbers{3, 3}), Error);
  EXPECT_THROW(pack_numbers(Numbers{4, 3}), Error);
  EXPECT_THROW(pack_numbers(Numbers{UINT64_MAX}), Error);
}

TEST(Numbers, AtTheEndOfTheirRangeAreRefused) {
  EXPECT_EQ(code_of(pack_numbers(Numbers{2, 9}), 10), Code::kOk);
  EXPECT_EQ(code_of(pack_numbers(Numbers{2, 9}), 9), Code::kCorrupt);
  EXPECT_EQ(code_of(pack_numbers(Numbers{0}), 0), Code::kCorrupt);
  EXPECT_EQ(code_of(pack_numbers(Numbers{0, 1}), 1), Code::kCorrupt);
}

TEST(Numbers, BeyondTheLimitAreRefused) {
  EXPECT_EQ(code_of(pack_numbers(Numbers{1, 2, 3}), 10, 3), Code::kOk);
  EXPECT_EQ(code_of(pack_numbers(Numbers{1, 2, 3}), 10, 2), Code::kTooLarge);
}

TEST(Numbers, CutShortPaddedOrTooLongAreRefused) {
  EXPECT_EQ(code_of("\x80"), Code::kCorrupt);
  EXPECT_EQ(code_of(std::string("\x80\x00", 2)), Code::kCorrupt);
  EXPECT_EQ(code_of(std::string(9, '\xff') + "\x02"), Code::kCorrupt);
  EXPECT_EQ(code_of(std::string(11, '\xff')), Code::kCorrupt);
}

TEST(Numbers, AnyBytesEitherUnpackToRisingNumbersOrAreRefused) {
  Rng rng(3, "numbers");
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (uint64_t n = rng.next_bits() % 12; n > 0; --n) {
      text += static_cast<char>(rng.next_bits());
    }
    const auto numbers = unpack_numbers(text, uint64_t{1} << 50, 8);
    EXPECT_TRUE(!numbers.ok() || pack_numbers(*numbers) == text);
  }
}

}  // namespace
}  // namespace ndtrain::ndp
