// Ranks that do what rank 0 is told end up with what one process does, whoever is lost on the way.
#include "framework/parallel/led_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/log.h"
#include "tests/parallel/led_rows.h"
#include "tests/parallel/mortal_transport.h"
#include "tests/parallel/training_by_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

constexpr int kShards = 8;

TrainerConfig config() { return config_of({.kind = OptimizerConfig::Kind::kAdam}, kShards); }

Bytes alone_driven() {
  const Model m = small_net(true, 0.3);
  Trainer trainer(m, weights_of(m), cpu(), config());
  LeaderRows rows;
  return drive(trainer, rows, [] {});
}

struct Result {
  Bytes bytes;         // rank 0's
  std::string error;   // of what ended otherwise
  bool ended = false;  // by order of rank 0
  int regrouped = 0;
  int64_t handed = 0;
};

std::unique_ptr<DataParallel> training_of(std::unique_ptr<Transport> transport, int64_t life) {
  const Model m = small_net(true, 0.3);
  return std::make_unique<DataParallel>(
      m, weights_of(m), cpu(), config(),
      std::make_unique<Communicator>(std::make_unique<MortalTransport>(std::move(transport), life),
                                     Communicator::Options{.in_flight = 1, .regroups = true}),
      DataParallel::Options{.plan = [](const auto& p) { return halves(p, 1); }, .regroup = true});
}

Result lead(std::unique_ptr<Transport> transport, int64_t life) {
  Result r;
  try {
    LeaderRows rows;
    std::unique_ptr<DataParallel> ranks = training_of(std::move(transport), life);
    const DataParallel& by_ranks = *ranks;
    LeadingTraining training(std::move(ranks), rows);
    r.bytes = drive(training, rows, [&] { training.use_rows(); });
    training.end();
    r.ended = true;
    r.regrouped = by_ranks.regrouped();
  } catch (const std::exception& e) {
    r.error = e.what();
  }
  return r;
}

Result follow_one(std::unique_ptr<Transport> transport, int64_t life,
                  const std::function<bool()>& stop) {
  Result r;
  FollowerRows rows;
  try {
    const auto training = training_of(std::move(transport), life);
    r.ended = follow(*training, rows, stop) == FollowEnd::kOver;
  } catch (const std::exception& e) {
    r.error = e.what();
  }
  r.handed = rows.handed;
  return r;
}

std::vector<Result> by_ranks_led(const std::vector<int64_t>& lives,
                                 const std::vector<std::function<bool()>>& stop = {}) {
  auto transports = memory_transports(static_cast<int>(lives.size()));
  std::vector<Result> results(lives.size());
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < lives.size(); ++r) {
    threads.emplace_back([&, r] {
      results[r] = r == 0 ? lead(std::move(transports[0]), lives[0])
                          : follow_one(std::move(transports[r]), lives[r],
                                       stop.empty() ? std::function<bool()>() : stop[r]);
    });
  }
  threads.clear();
  return results;
}

class LedTraining : public ::testing::Test {
 protected:
  LedTraining() { log::set_level(log::Level::kError); }
  ~LedTraining() override { log::set_level(log::Level::kInfo); }

  const Bytes expected = alone_driven();
};

TEST_F(LedTraining, HasTheBytesOfOneProcessByAnyNumberOfRanks) {
  for (const size_t ranks : {1, 2, 3, 8}) {
    const auto results = by_ranks_led(std::vector<int64_t>(ranks, kForever));
    EXPECT_EQ(results[0].error, "");
    EXPECT_TRUE(results[0].bytes == expected) << ranks << " ranks";
    for (size_t r = 1; r < ranks; ++r) {
      EXPECT_TRUE(results[r].ended) << "rank " << r << ": " << results[r].error;
    }
  }
}

TEST_F(LedTraining, ARankIsHandedTheRowsOfItsShardsAlone) {
  const auto results = by_ranks_led({kForever, kForever, kForever, kForever});
  EXPECT_EQ(results[1].handed, 9 + 9 + 6 + 6);  // shards 2 and 3 of 70 rows, then of 50
}

TEST_F(LedTraining, ARankThatDiesAtAnyMessageLeavesTheBytesOfOneProcess) {
  int disturbed = 0;
  for (int64_t life = 0;; life += 5) {
    SCOPED_TRACE("rank 1 lives for " + std::to_string(life));
    const auto results = by_ranks_led({kForever, life, kForever});
    ASSERT_EQ(results[0].error, "");
    ASSERT_TRUE(results[0].bytes == expected);
    ASSERT_TRUE(results[2].ended) << results[2].error;
    disturbed += results[0].regrouped;
    if (results[1].error.empty()) break;
  }
  EXPECT_GT(disturbed, 20);
}

TEST_F(LedTraining, TwoThatDieLeaveTheBytesOfOneProcess) {
  for (const int64_t first : {1, 4, 9, 30, 77, 140}) {
    for (const int64_t apart : {0, 1, 2, 4, 7, 12, 20}) {
      SCOPED_TRACE(std::to_string(first) + " and " + std::to_string(apart));
      const auto results = by_ranks_led({kForever, first, kForever, first + apart});
      ASSERT_EQ(results[0].error, "");
      ASSERT_TRUE(results[0].bytes == expected);
      ASSERT_TRUE(results[2].ended) << results[2].error;
    }
  }
}

TEST_F(LedTraining, WithoutRankZeroTheOthersEndAndSayWhomTheyLack) {
  for (const int64_t life : {2, 20, 60}) {
    const auto results = by_ranks_led({life, kForever, kForever});
    EXPECT_FALSE(results[1].ended || results[2].ended);
    EXPECT_THAT(results[1].error + results[2].error, ::testing::HasSubstr("rank 0"));
  }
}

TEST_F(LedTraining, ARankThatIsToldToStopLeavesTheOthersTheBytesOfOneProcess) {
  for (const int after : {0, 1, 3, 9}) {
    int asked = 0;
    const auto results =
        by_ranks_led({kForever, kForever, kForever}, {{}, [&] { return asked++ >= after; }, {}});
    EXPECT_EQ(results[0].error, "");
    EXPECT_TRUE(results[0].bytes == expected);
    EXPECT_FALSE(results[1].ended);
    EXPECT_EQ(results[1].error, "");
    EXPECT_TRUE(results[2].ended);
  }
}

TEST(TrainingOrder, IsWhatItWasBehindItsText) {
  const TrainingOrder order{
      .number = 7, .kind = TrainingOrder::Kind::kRestore, .bytes = std::string("a\0b", 3)};
  const TrainingOrder back = TrainingOrder::parse(order.text());
  EXPECT_EQ(back.number, 7U);
  EXPECT_EQ(back.kind, order.kind);
  EXPECT_EQ(back.bytes, order.bytes);
  for (const std::string& damaged : {std::string(), std::string(8, '\0'), std::string(9, '\x7f')}) {
    EXPECT_THROW((void)TrainingOrder::parse(damaged), Error);
  }
}

}  // namespace
}  // namespace ndtrain
