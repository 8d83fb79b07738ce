// The compressors that send a sign for each element.
#include <gtest/gtest.h>

#include <numeric>

#include "framework/sparse/selection/compressor.h"
#include "framework/sparse/selection/selection_codec.h"
#include "tests/sparse/selection/gradients.h"

namespace ndtrain {
namespace {

Selection taken(std::string_view name, std::vector<float>& values) {
  CompressorState state;
  CompressorScratch scratch;
  Selection out;
  make_compressor(name)->take(values, 1, Rng(1), state, scratch, out);
  return out;
}

TEST(Signs, AreThoseOfTheElementsTimesTheMeanMagnitude) {
  for (const std::string_view name : {"signum", "efsignum"}) {
    std::vector<float> values = {3, -1, 0, -0.0F, 6};
    EXPECT_EQ(taken(name, values), (Selection{{0, 1, 2, 3, 4}, {2, -2, 2, -2, 2}}));
    const std::vector<float> left =
        name == "signum" ? std::vector<float>(5, 0) : std::vector<float>{1, 1, -2, 2, 4};
    EXPECT_EQ(values, left) << name;
  }
}

TEST(Signs, TravelAsABitForEachAndAMagnitude) {
  for (const int64_t n : {1, 7, 8, 9, 1000}) {
    std::vector<float> values = gradient(n, n);
    const Selection s = taken("efsignum", values);
    for (const ValueCoding coding : value_codings()) {
      const std::string bytes = encode(s, n, coding);
      // Of one element its value, which has its sign.
      const uint64_t signs = value_bytes(1, coding) + (n == 1 ? 0 : (n + 7) / 8);
      EXPECT_EQ(bytes.size(), 2 + (n < 128 ? 1 : 2) + signs);
      Selection back;
      ASSERT_TRUE(decode(bytes, n, back).ok());
      EXPECT_EQ(back.indices, s.indices);
      std::vector<float> sent = s.values;
      round_to_coding(sent, coding);
      EXPECT_EQ(back.values, sent);
      for (size_t length = 0; length < bytes.size(); ++length) {
        EXPECT_FALSE(decode(std::string_view(bytes).substr(0, length), n, back).ok());
      }
      EXPECT_FALSE(decode(bytes + '\0', n, back).ok());
      std::string other = bytes;
      other[2] = static_cast<char>(other[2] ^ 1);  // their count
      EXPECT_FALSE(decode(other, n, back).ok());
    }
  }
}

// The mean of what is sent becomes that of the gradient: what a sign leaves out comes later.
TEST(Signs, WithFeedbackLoseNothing) {
  std::vector<float> left(500, 0);
  std::vector<double> sent(500, 0), sum(500, 0);
  for (int step = 0; step < 400; ++step) {
    const std::vector<float> g = gradient(500, step % 20);
    for (size_t i = 0; i < g.size(); ++i) {
      left[i] += g[i];
      sum[i] += g[i];
    }
    const Selection s = taken("efsignum", left);
    for (size_t i = 0; i < s.values.size(); ++i) sent[i] += s.values[i];
  }
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sent[i] + left[i], sum[i], 0.05) << i;
}

}  // namespace
}  // namespace ndtrain
