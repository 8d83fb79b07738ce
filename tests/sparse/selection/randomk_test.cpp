#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "framework/core/error.h"
#include "framework/sparse/selection/compressor.h"

namespace ndtrain {
namespace {

TEST(RandomK, IndicesAreKDifferentOnesRisingForEveryK) {
  for (int64_t k = 1; k <= 70; ++k) {
    const std::vector<uint32_t> indices = known_indices(70, k, Rng(1, "w"), 5);
    ASSERT_EQ(static_cast<int64_t>(indices.size()), k);
    EXPECT_TRUE(std::is_sorted(indices.begin(), indices.end()));
    EXPECT_EQ(static_cast<int64_t>(std::set(indices.begin(), indices.end()).size()), k);
    EXPECT_LT(indices.back(), 70U);
  }
  EXPECT_THROW(known_indices(70, 71, Rng(1), 0), Error);
  EXPECT_THROW(known_indices(70, 0, Rng(1), 0), Error);
}

TEST(RandomK, IndicesAreOfTheSeedTheTensorAndTheStep) {
  const auto of = [](uint64_t seed, std::string_view tensor, int64_t step) {
    return known_indices(1000, 100, Rng(seed, tensor), step);
  };
  EXPECT_EQ(of(1, "w", 2), of(1, "w", 2));
  EXPECT_NE(of(1, "w", 2), of(2, "w", 2));
  EXPECT_NE(of(1, "w", 2), of(1, "b", 2));
  EXPECT_NE(of(1, "w", 2), of(1, "w", 3));
}

TEST(RandomK, EveryElementIsAsLikely) {
  // Of 20,000 draws of 3 or of 7 of 10, each element is in about 3 or 7 tenths: deviations of the
  // count are sqrt(20000 .3 .7) = 65.
  for (const int64_t k : {3, 7}) {
    std::vector<int> count(10, 0);
    for (int64_t step = 0; step < 20000; ++step) {
      for (const uint32_t i : known_indices(10, k, Rng(7, "w"), step)) ++count[i];
    }
    for (const int c : count) EXPECT_NEAR(c, 2000.0 * static_cast<double>(k), 5 * 65);
  }
}

TEST(RandomK, UnbiasedValuesAreScaled) {
  std::vector<float> values(100);
  std::iota(values.begin(), values.end(), 1);
  CompressorState state;
  CompressorScratch scratch;
  Selection plain, scaled;
  std::vector<float> copy = values;
  make_compressor("randomk")->take(values, 20, Rng(1), state, scratch, plain);
  state = {};
  make_compressor("randomk", {.unbiased = true})->take(copy, 20, Rng(1), state, scratch, scaled);
  EXPECT_EQ(plain.indices, scaled.indices);
  for (size_t i = 0; i < plain.values.size(); ++i) {
    EXPECT_EQ(scaled.values[i], 5 * plain.values[i]);
  }
  EXPECT_TRUE(make_compressor("randomk")->indices_are_known());
  EXPECT_FALSE(make_compressor("topk")->indices_are_known());
}

}  // namespace
}  // namespace ndtrain
