#include "framework/parallel/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "tests/parallel/random_costs.h"

namespace ndtrain {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kKilo = 256;  // elements of 1 KiB

// Layers of so many KiB, from the front; a second of backward pass each.
CostProfile layers_of_kilobytes(std::initializer_list<int64_t> sizes) {
  std::vector<CostProfile::Layer> layers;
  for (const int64_t s : sizes) layers.push_back({s * kKilo, 0, 1});
  return testing::network(layers, 0, 0);
}

// In KiB, from the front.
std::vector<int64_t> sizes(const Buckets& buckets) {
  std::vector<int64_t> sizes;
  for (const ParameterRange& b : buckets) sizes.push_back(b.size() / kKilo);
  return sizes;
}

TEST(Buckets, SomeLayersEachFromTheFront) {
  const CostProfile costs = layers_of_kilobytes({1, 2, 4, 8, 16});
  EXPECT_THAT(sizes(layer_buckets(costs)), ElementsAre(1, 2, 4, 8, 16));
  EXPECT_THAT(sizes(layer_buckets(costs, 2)), ElementsAre(3, 12, 16));
  EXPECT_THAT(sizes(layer_buckets(costs, 5)), ElementsAre(31));
  EXPECT_THAT(sizes(layer_buckets(costs, 9)), ElementsAre(31));
  EXPECT_EQ(layer_buckets(costs)[0], (ParameterRange{30 * kKilo, 31 * kKilo}));
}

TEST(Buckets, FromTheFrontTheyStayBelowTheirBytes) {
  const CostProfile costs = layers_of_kilobytes({4, 4, 2, 12, 1, 1});
  EXPECT_THAT(sizes(front_buckets(costs, 10 << 10)), ElementsAre(8, 2, 12, 2));
  EXPECT_THAT(sizes(front_buckets(costs, (10 << 10) + 1)), ElementsAre(10, 12, 2));
  EXPECT_THAT(sizes(front_buckets(costs, 1)), ElementsAre(4, 4, 2, 12, 1, 1));
  EXPECT_THAT(sizes(front_buckets(costs, 1 << 20)), ElementsAre(24));
}

TEST(Buckets, FromTheBackTheyAreClosedAtTheirBytes) {
  const CostProfile costs = layers_of_kilobytes({1, 2, 12, 9, 3, 1});
  EXPECT_THAT(sizes(back_buckets(costs, 1 << 10, 10 << 10)), ElementsAre(3, 12, 12, 1));
  EXPECT_THAT(sizes(back_buckets(costs, 2 << 10, 10 << 10)), ElementsAre(3, 21, 4));
  EXPECT_THAT(sizes(back_buckets(costs, 1 << 20, 1 << 20)), ElementsAre(28));
}

TEST(Buckets, AreCutWhereGradientsWaitAnotherTime) {
  // The front gradient waits 0 s for the end of the backward pass, the next 1 s, and so on.
  const CostProfile costs = layers_of_kilobytes({1, 2, 4, 8, 16, 32});
  EXPECT_THAT(sizes(waiting_buckets(costs, 10)), ElementsAre(63));
  EXPECT_THAT(sizes(waiting_buckets(costs, 2)), ElementsAre(7, 24, 32));  // cut at 3 s and 5 s
  EXPECT_THAT(sizes(waiting_buckets(costs, 0.5)), ElementsAre(1, 2, 4, 8, 16, 32));
}

TEST(Buckets, PiecesDoNotMixLayers) {
  const CostProfile costs = layers_of_kilobytes({1, 10, 4, 8});
  EXPECT_THAT(sizes(pieces(costs, 4 << 10)), ElementsAre(1, 4, 4, 2, 4, 4, 4));
}

TEST(Buckets, SizesAndTimesAreAboveNothing) {
  const CostProfile costs = layers_of_kilobytes({1});
  EXPECT_THROW(layer_buckets(costs, 0), Error);
  EXPECT_THROW(front_buckets(costs, 0), Error);
  EXPECT_THROW(back_buckets(costs, 0, 1), Error);
  EXPECT_THROW(back_buckets(costs, 1, -1), Error);
  EXPECT_THROW(waiting_buckets(costs, 0), Error);
  EXPECT_THROW(pieces(costs, 3), Error);
}

TEST(Buckets, LayersOfABucketAreThoseThatHaveElementsOfIt) {
  const CostProfile costs = testing::network({{10, 0, 0}, {20, 0, 0}, {30, 0, 0}}, 0, 0);
  const auto spans = layers_of({{55, 60}, {45, 55}, {29, 45}, {0, 29}}, costs);
  std::vector<std::pair<size_t, size_t>> pairs;
  for (const LayerSpan& s : spans) pairs.emplace_back(s.front, s.back);
  EXPECT_THAT(pairs,
              ElementsAre(std::pair(0, 0), std::pair(0, 1), std::pair(1, 2), std::pair(2, 2)));
}

TEST(Buckets, ALayerWithoutElementsHasAnEmptyBucketOfItsOwn) {
  const CostProfile costs =
      testing::network({{0, 0, 0}, {10, 0, 0}, {0, 0, 0}, {0, 0, 0}, {30, 0, 0}, {0, 0, 0}}, 0, 0);
  const auto spans = layers_of(layer_buckets(costs), costs);
  ASSERT_EQ(spans.size(), 6u);
  for (size_t l = 0; l < spans.size(); ++l) {
    EXPECT_EQ(spans[l].front, l);
    EXPECT_EQ(spans[l].back, l);
  }
  const auto cut = layers_of({{30, 40}, {20, 30}, {20, 20}, {0, 20}}, costs);
  std::vector<std::pair<size_t, size_t>> pairs;
  for (const LayerSpan& s : cut) pairs.emplace_back(s.front, s.back);
  EXPECT_THAT(pairs,
              ElementsAre(std::pair(1, 1), std::pair(4, 4), std::pair(4, 4), std::pair(4, 4)));
}

}  // namespace
}  // namespace ndtrain
