#include "framework/train/varying_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "framework/core/rng.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"
#include "tests/train/small_net.h"

namespace ndtrain {
namespace {

using testing::bytes_of;
using testing::error_of;
using ::testing::HasSubstr;

// These in turn, and the last one again and again, cut to what is left.
BatchSizes in_turn(std::deque<std::vector<int64_t>> sizes) {
  const auto rest = std::make_shared<std::deque<std::vector<int64_t>>>(std::move(sizes));
  return [rest](int64_t left) {
    std::vector<int64_t> now = rest->front();
    if (rest->size() > 1) rest->pop_front();
    for (int64_t& n : now) {
      n = std::min(n, left);
      left -= n;
    }
    return now;
  };
}

const VaryingOrder::Data kHundred{.rows = 100, .batch = 10};

std::vector<int64_t> rows_of(VaryingOrder& order, int64_t first_step) {
  std::vector<int64_t> rows;
  for (int64_t step = first_step; step < order.steps(); ++step) {
    order.begin_step(step);
    for (int shard = 0; shard < 2; ++shard) {
      const auto of_shard = order.rows(shard, step);
      EXPECT_EQ(std::ssize(of_shard), order.row_count(shard, step));
      rows.insert(rows.end(), of_shard.begin(), of_shard.end());
    }
  }
  return rows;
}

TEST(VaryingOrder, HasEachRowOnceWhateverTheSizes) {
  const std::deque<std::vector<int64_t>> ways[] = {
      {{5, 5}}, {{10, 0}, {0, 10}, {7, 1}}, {{1, 0}, {20, 33}, {2, 2}}, {{99, 1}}, {{60, 60}}};
  for (const auto& way : ways) {
    VaryingOrder order(kHundred, in_turn(way), {0, 2}, 9, 3, 0, 0);
    EXPECT_EQ(rows_of(order, 0), permutation(100, Rng(9, "shuffle epoch 3")));
    EXPECT_EQ(order.used(), 100);
  }
}

TEST(VaryingOrder, GoesOnWhereItWas) {
  VaryingOrder whole(kHundred, in_turn({{10, 7}, {3, 3}, {8, 20}}), {0, 2}, 9, 0, 0, 0);
  const std::vector<int64_t> all = rows_of(whole, 0);
  VaryingOrder rest(kHundred, in_turn({{3, 3}, {8, 20}}), {0, 2}, 9, 0, 1, 17);
  EXPECT_EQ(rows_of(rest, 1), std::vector<int64_t>(all.begin() + 17, all.end()));
}

TEST(VaryingOrder, KnowsHowManyStepsThereWillBe) {
  VaryingOrder order(kHundred, in_turn({{5, 5}, {15, 15}, {45, 45}}), {0, 2}, 9, 0, 0, 0);
  EXPECT_EQ(order.steps(), 10);
  order.begin_step(0);
  EXPECT_EQ(order.steps(), 1 + 9);
  EXPECT_EQ(order.row_count(0), 10);
  order.begin_step(1);
  EXPECT_EQ(order.steps(), 2 + 2);
  EXPECT_EQ(order.scheduled(1), 1) << "10 rows are a step as it was asked for";
  order.begin_step(2);
  EXPECT_EQ(order.steps(), 3);
  EXPECT_EQ(order.row_count(2), 60) << "what is left";
  EXPECT_EQ(order.scheduled(2), 4);
}

TEST(VaryingOrder, LeavesOutASingleRowOfAShardWhereThatIsAskedFor) {
  VaryingOrder::Data data = kHundred;
  data.no_single_rows = true;
  VaryingOrder order(data, in_turn({{1, 9}}), {0, 2}, 9, 0, 0, 0);
  order.begin_step(0);
  EXPECT_EQ(order.row_count(0, 0), 0);
  EXPECT_TRUE(order.rows(0, 0).empty());
  EXPECT_EQ(order.row_count(0), 9);
}

TEST(VaryingOrder, RefusesSizesAndPlacesThatCannotBe) {
  const auto begins = [](std::vector<int64_t> sizes) {
    return error_of([&] {
      VaryingOrder order(
          kHundred, [&](int64_t) { return sizes; }, {0, 2}, 9, 0, 0, 0);
      order.begin_step(0);
    });
  };
  EXPECT_THAT(begins({0, 0}), HasSubstr("step 1 has 0 rows of 100"));
  EXPECT_THAT(begins({-1, 5}), HasSubstr("step 1 has 4 rows"));
  EXPECT_THAT(begins({60, 41}), HasSubstr("step 1 has 101 rows of 100"));
  const std::pair<int64_t, int64_t> places[] = {{0, 10}, {2, 0}, {1, 101}, {1, -1}};
  for (const auto& [step, used] : places) {
    EXPECT_THAT(error_of([&, step = step, used = used] {
                  VaryingOrder(kHundred, in_turn({{5, 5}}), {0, 2}, 9, 0, step, used);
                }),
                HasSubstr("rows"));
  }
  VaryingOrder order(kHundred, in_turn({{5, 5}}), {0, 2}, 9, 0, 0, 0);
  EXPECT_THAT(error_of([&] { (void)order.rows(0, 0); }), HasSubstr("rows of step 1"));
}

TrainerConfig config() {
  return {.epochs = 2,
          .batch = 16,
          .schedule = {.kind = Schedule::Kind::kCosine, .lr = 0.01},
          .seed = 5};
}

std::string trained(const TrainerConfig& config, const BatchSizes& sizes) {
  const Model m = testing::small_net(true, 0.3);
  Trainer trainer(m, testing::weights_of(m), testing::cpu(), config);
  trainer.vary_batches(sizes);
  TensorDataset data = testing::stripes(70, 3);
  EpochResult result;
  for (int64_t e = 0; e < config.epochs; ++e) EXPECT_TRUE(trainer.train_epoch(data, result));
  return bytes_of(trainer.checkpoint());
}

// The order of one shard is that of steps of one size.
TEST(VaryingOrder, OfStepsOfOneSizeIsTheTrainingOfThese) {
  EXPECT_TRUE(trained(config(), in_turn({{16}})) == trained(config(), {}));
}

TEST(VaryingOrder, ATrainingThatIsStoppedInAnEpochGoesOnToTheSameBytes) {
  const std::deque<std::vector<int64_t>> sizes = {{10}, {30}, {9}};
  const Model m = testing::small_net(true, 0.3);
  TensorDataset data = testing::stripes(70, 3);
  EpochResult result;
  Trainer stopped(m, testing::weights_of(m), testing::cpu(), config());
  stopped.vary_batches(in_turn(sizes));
  EXPECT_FALSE(stopped.train_epoch(data, result, [](int64_t done, int64_t) { return done < 2; }));
  const Result<Checkpoint> saved = parse_checkpoint(checkpoint_bytes(stopped.checkpoint()));
  ASSERT_TRUE(saved.ok());
  EXPECT_EQ(saved->used, 40);

  Trainer resumed(m, testing::weights_of(m), testing::cpu(), config());
  resumed.restore(*saved);
  EXPECT_THAT(error_of([&] { (void)resumed.train_epoch(data, result); }),
              HasSubstr("begun with steps of varying sizes"));
  resumed.vary_batches(in_turn({{9}}));
  while (resumed.epoch() < 2) EXPECT_TRUE(resumed.train_epoch(data, result));
  EXPECT_TRUE(bytes_of(resumed.checkpoint()) == trained(config(), in_turn(sizes)));
}

}  // namespace
}  // namespace ndtrain
