#include "framework/sparse/selection/scan.h"

#include <gtest/gtest.h>

#include <bit>

#include "tests/sparse/selection/gradients.h"

namespace ndtrain {
namespace {

// The definition, word by word.
float sum_of_block(std::span<const float> block) {
  float x[16] = {};
  for (size_t i = 0; i < block.size(); ++i) x[i] = std::fabs(block[i]);
  float eight[8], four[4], two[2];
  for (int i = 0; i < 8; ++i) eight[i] = x[i] + x[i + 8];
  for (int i = 0; i < 4; ++i) four[i] = eight[i] + eight[i + 4];
  for (int i = 0; i < 2; ++i) two[i] = four[i] + four[i + 2];
  const float sum = two[0] + two[1];
  return block.size() == 16 ? sum : sum * (16.0F / static_cast<float>(block.size()));
}

class Scan : public ::testing::TestWithParam<InstructionSet> {};

TEST_P(Scan, SumsAreOfTheSameBits) {
  for (int64_t n = 1; n < 700; n += n < 70 ? 1 : 37) {
    const std::vector<float> room = gradient(n + 1, n);
    const std::span<const float> values = std::span(room).subspan(n % 2);  // aligned or not
    const auto count = static_cast<int64_t>(values.size());
    std::vector<float> sums((count + 15) / 16, -1);
    block_sums(values, sums, GetParam());
    for (size_t b = 0; b < sums.size(); ++b) {
      const auto block = values.subspan(16 * b, std::min<size_t>(16, count - 16 * b));
      EXPECT_EQ(std::bit_cast<uint32_t>(sums[b]), std::bit_cast<uint32_t>(sum_of_block(block)))
          << "block " << b << " of " << count;
    }
  }
}

TEST_P(Scan, SumsOfWhatIsNotFiniteAreNot) {
  std::vector<float> values(640, 1.0F);
  for (size_t b = 0; b < 40; ++b) values[16 * b + b % 16] = b % 2 == 0 ? NAN : -INFINITY;
  std::vector<float> sums(40);
  block_sums(values, sums, GetParam());
  for (size_t b = 0; b < 40; ++b) {
    EXPECT_TRUE(b % 2 == 0 ? std::isnan(sums[b]) : std::isinf(sums[b])) << b;
  }
}

TEST_P(Scan, MasksAreOfWhatReachesTheThreshold) {
  for (int64_t n = 1; n < 500; n += n < 70 ? 1 : 29) {
    const std::vector<float> values = wild_gradient(n, n);
    std::vector<uint16_t> masks((n + 15) / 16);
    for (const float t : {0.0F, 1.0F, 2.5F, INFINITY}) {
      mask_at_least(values, t, masks, GetParam());
      for (int64_t i = 0; i < 16 * static_cast<int64_t>(masks.size()); ++i) {
        const bool there = i < n && (std::isnan(values[i]) || std::fabs(values[i]) >= t);
        EXPECT_EQ((masks[i / 16] >> i % 16 & 1) != 0, there) << i << " of " << n << " at " << t;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Scan,
                         ::testing::ValuesIn(instruction_sets_here().begin(),
                                             instruction_sets_here().end()));

}  // namespace
}  // namespace ndtrain
