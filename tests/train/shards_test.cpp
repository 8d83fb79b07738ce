#include "framework/train/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/comm/sum_tree.h"
#include "framework/core/rng.h"
#include "framework/train/running_statistics.h"
#include "framework/train/shard_sums.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"
#include "tests/train/small_net.h"

namespace ndtrain {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

TEST(ShardsOfRanks, AreNeighboursInProportionToTheShares) {
  EXPECT_THAT(shards_of_ranks(8, std::vector{1.0, 1.0}), ElementsAre(0, 4, 8));
  EXPECT_THAT(shards_of_ranks(8, std::vector{1.0, 1.0, 1.0}), ElementsAre(0, 3, 5, 8));
  EXPECT_THAT(shards_of_ranks(9, std::vector{2.0, 1.0}), ElementsAre(0, 6, 9));
  EXPECT_THAT(shards_of_ranks(4, std::vector{1.0, 100.0, 1.0}), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(error_of([] {
                (void)shards_of_ranks(2, std::vector{1.0, 1.0, 1.0});
              }),
              HasSubstr("3 ranks but 2 shards"));
  EXPECT_THAT(error_of([] {
                (void)shards_of_ranks(2, std::vector{1.0, 0.0});
              }),
              HasSubstr("a share of 0"));
}

// How long the rank that is done last takes, at best: all ways to share them out are tried.
double least_s(int shards, std::span<const double> shard_s) {
  if (shard_s.size() == 1) return shards * shard_s[0];
  double least = INFINITY;
  for (int n = 1; n <= shards - std::ssize(shard_s) + 1; ++n) {
    least = std::min(least, std::max(n * shard_s[0], least_s(shards - n, shard_s.subspan(1))));
  }
  return least;
}

TEST(FastestShards, NoOtherWayIsFaster) {
  const Rng rng(7, "speeds");
  uint64_t draw = 0;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (int shards = ranks; shards <= 14; ++shards) {
      for (int i = 0; i < 20; ++i) {
        std::vector<double> shard_s;
        for (int r = 0; r < ranks; ++r) shard_s.push_back(0.05 + rng.uniform(draw++));
        const std::vector<int> first = fastest_shards(shards, shard_s);
        ASSERT_EQ(first.front(), 0);
        ASSERT_EQ(first.back(), shards);
        double slowest_s = 0;
        for (size_t r = 0; r < shard_s.size(); ++r) {
          ASSERT_LT(first[r], first[r + 1]);
          slowest_s = std::max(slowest_s, (first[r + 1] - first[r]) * shard_s[r]);
        }
        ASSERT_EQ(slowest_s, least_s(shards, shard_s))
            << ranks << " ranks, " << shards << " shards, draw " << i;
      }
    }
  }
}

TEST(FastestShards, AreNotThoseOfAProportionThatIsRounded) {
  EXPECT_THAT(shards_of_ranks(10, std::vector{2.9, 1.0}), ElementsAre(0, 7, 10));  // of 7.44
  EXPECT_THAT(fastest_shards(10, std::vector{1.0, 2.9}), ElementsAre(0, 8, 10));   // 8 s, not 8.7
  EXPECT_THAT(fastest_shards(4, std::vector{1.0, 1.0, 100.0}), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(error_of([] {
                (void)fastest_shards(1, std::vector{1.0, 1.0});
              }),
              HasSubstr("2 ranks but 1 shards"));
  EXPECT_THAT(error_of([] {
                (void)fastest_shards(2, std::vector{1.0, 0.0});
              }),
              HasSubstr("a share of 0"));
}

TEST(EpochOrder, HasEachRowOnceInItsOwnShardWhateverTheBatch) {
  for (const int64_t rows : {1, 7, 23, 64}) {
    for (const int64_t batch : {5, 8, 64}) {
      for (const int shards : {1, 3, 5}) {
        const EpochOrder order({.rows = rows, .batch = batch, .shards = shards}, {0, shards}, 9, 2);
        std::vector<int64_t> seen;
        for (int64_t s = 0; s < order.steps(); ++s) {
          int64_t of_step = 0;
          for (int v = 0; v < shards; ++v) {
            const auto mine = order.rows(v, s);
            for (const int64_t row : mine) EXPECT_EQ(row % shards, v);
            seen.insert(seen.end(), mine.begin(), mine.end());
            of_step += std::ssize(mine);
          }
          EXPECT_EQ(of_step, order.row_count(s));
          EXPECT_LE(of_step, batch);
        }
        std::ranges::sort(seen);
        std::vector<int64_t> all(static_cast<size_t>(rows));
        for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
        EXPECT_EQ(seen, all) << rows << " rows, batch " << batch << ", shards " << shards;
      }
    }
  }
}

TEST(EpochOrder, OfAShardIsTheSameWhoeverHasIt) {
  const EpochOrder::Data data{.rows = 50, .batch = 8, .shards = 4};
  const EpochOrder all(data, {0, 4}, 1, 0), some(data, {2, 3}, 1, 0);
  for (int64_t s = 0; s < all.steps(); ++s) {
    EXPECT_TRUE(std::ranges::equal(all.rows(2, s), some.rows(2, s)));
  }
}

TEST(EpochOrder, LeavesOutASingleRowWhereThatIsAskedFor) {
  const EpochOrder::Data data{.rows = 9, .batch = 4, .shards = 1, .no_single_rows = true};
  const EpochOrder order(data, {}, 1, 0);
  EXPECT_EQ(order.steps(), 3);
  EXPECT_EQ(order.row_count(1), 4);
  EXPECT_EQ(order.row_count(2), 0);
  EXPECT_EQ(EpochOrder({.rows = 9, .batch = 1, .no_single_rows = true}, {}, 1, 0).row_count(2), 1);
}

TEST(EpochOrder, ABatchHasARowForEachShard) {
  EXPECT_THAT(error_of([] {
                EpochOrder({.rows = 9, .batch = 3, .shards = 4}, {0, 4}, 1, 0);
              }),
              HasSubstr("a batch of 3 is not enough for 4 shards"));
}

std::vector<float> vector_of(int shard, int64_t n) {
  const Rng rng(4, "shard " + std::to_string(shard));
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(rng.normal(i));
  return v;
}

// What a step needs beside rows, parameters and gradients is of one shard at a time.
TEST(Shards, StepsOfMoreOfThemNeedLessMemory) {
  const Model m = testing::small_net(true, 0.3);
  const auto bytes = [&](int64_t rows) {
    const StepGraph s = make_step_graph(bind(m, rows), testing::weights_of(m), 0);
    return static_cast<double>(Plan(s.graph, testing::cpu()).arena_bytes());
  };
  EXPECT_LT(bytes(64 / 4), 0.5 * bytes(64));
}

TEST(ShardSums, OfAnyRanksAreTheSubtreesOfTheSameTree) {
  constexpr int64_t kSize = 40;
  for (int shards = 1; shards <= 11; ++shards) {
    std::vector<std::vector<float>> leaves;
    std::vector<Addend> all;
    for (int v = 0; v < shards; ++v) leaves.push_back(vector_of(v, kSize));
    for (int v = 0; v < shards; ++v) {
      all.push_back({{v, v + 1}, leaves[static_cast<size_t>(v)].data()});
    }
    std::vector<float> expected(kSize);
    add_in_tree_order(all, shards, expected);
    for (int cut = 1; cut <= shards; ++cut) {
      std::vector<std::unique_ptr<ShardSums>> ranks;
      std::vector<Addend> partial;
      for (const ShardRange own : {ShardRange{0, cut}, ShardRange{cut, shards}}) {
        if (own.size() == 0) continue;
        ShardSums& sums =
            *ranks.emplace_back(std::make_unique<ShardSums>(kSize, own, shards, testing::cpu()));
        for (int v = own.begin; v < own.end; ++v) {
          std::ranges::copy(leaves[static_cast<size_t>(v)], sums.shard(v));
          sums.add(v, {0, 16});
          sums.add(v, {16, kSize});
        }
        const std::vector<Subtree> nodes = subtrees_of(own.begin, own.end, shards);
        ASSERT_EQ(nodes.size(), sums.sums().size());
        for (size_t i = 0; i < nodes.size(); ++i) partial.push_back({nodes[i], sums.sums()[i]});
      }
      std::vector<float> sum(kSize);
      add_in_tree_order(partial, shards, sum);
      EXPECT_EQ(sum, expected) << shards << " shards, cut at " << cut;
    }
  }
}

TEST(RunningStatistics, AdvanceToTheMeanOverTheShards) {
  const std::vector<float> before{4, 8};
  RunningStatistics s({{"mean", Tensor::of<float>(DType::kF32, {2}, before)},
                       {"var", Tensor::of<float>(DType::kF32, {2}, before)}},
                      {0, 2}, 2, testing::cpu());
  s.next("mean", 0)[0] = 1;
  s.next("mean", 0)[1] = 2;
  s.next("var", 0)[0] = 6;
  s.next("var", 0)[1] = 0;
  s.add(0);
  s.add_unchanged(1);
  s.advance();
  const std::map<std::string, Tensor> now = s.copy();
  EXPECT_THAT(now.at("mean").as<float>(), ElementsAre(2.5F, 5.0F));
  EXPECT_THAT(now.at("var").as<float>(), ElementsAre(5.0F, 4.0F));
  EXPECT_THAT(error_of([&] { s.set("mean", Tensor({DType::kF32, {3}})); }), HasSubstr("'mean'"));
}

}  // namespace
}  // namespace ndtrain
