// Ranks of which some are slow: a faster one gets more shards, with the bytes of one process.
#include "framework/parallel/share_tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>

#include "framework/core/log.h"
#include "tests/parallel/training_by_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Rows that take a while, by a clock of the rank's own. A step has those of a shard at once.
class SlowDataset final : public Dataset {
 public:
  SlowDataset(TensorDataset rows, ManualClock& clock, double seconds)
      : rows_(std::move(rows)), clock_(clock), took_(seconds) {}

  int64_t size() const override { return rows_.size(); }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override {
    clock_.advance(std::chrono::duration_cast<std::chrono::nanoseconds>(took_));
    rows_.fetch(rows, inputs, labels);
  }

 private:
  TensorDataset rows_;
  ManualClock& clock_;
  const std::chrono::duration<double> took_;
};

// Three steps an epoch.
TrainerConfig longer(int64_t epochs, int shards) {
  TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kAdam}, shards);
  config.epochs = epochs;
  return config;
}

Bytes alone_for(const TrainerConfig& config) { return alone(config, config.epochs); }

struct Shares {
  Bytes bytes;
  std::vector<RankShare> shares;
  std::vector<std::string> said;
};

struct Tuning {
  TrainerConfig config = longer(4, 8);
  std::vector<double> shard_s = {1, 2, 4};  // of each rank
  DataParallel::MakePlan plan = pieces_of_32;
  ExchangeOptions exchange = {};
  PlanTuner::Options tuning = {};
  bool real_clock = false;
  int64_t rank_1_dies_after = INT64_MAX;  // steps
};

Shares run_rank(const Tuning& c, std::unique_ptr<Transport> transport) {
  Shares o;
  ManualClock clock;
  const auto rank = static_cast<size_t>(transport->rank());
  const bool loses = c.rank_1_dies_after < INT64_MAX;
  DataParallel::Options options{.plan = c.plan,
                                .measure_shares = true,
                                .exchange = c.exchange,
                                .tuning = c.tuning,
                                .clock = c.real_clock ? nullptr : &clock,
                                .regroup = loses};
  options.tuning.say = [&](const std::string& line) { o.said.push_back(line); };
  const Model m = small_net(true, 0.3);
  DataParallel training(
      m, weights_of(m), cpu(), c.config,
      std::make_unique<Communicator>(std::move(transport),
                                     Communicator::Options{.in_flight = 1, .regroups = loses}),
      options);
  SlowDataset data(stripes(kRows, 3), clock, c.shard_s[rank]);
  int64_t steps = 0;
  o.bytes = train(training, data, c.config.epochs, [&](int64_t, int64_t) {
    if (++steps > c.rank_1_dies_after && rank == 1) throw std::runtime_error("this rank dies");
    return true;
  });
  o.shares = training.measured_shares();
  training.barrier();
  return o;
}

// Of a rank that dies, nothing.
std::vector<Shares> by_unequal_ranks(const Tuning& c) {
  auto transports = memory_transports(static_cast<int>(c.shard_s.size()));
  std::vector<Shares> all(transports.size());
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < all.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        all[r] = run_rank(c, std::move(transports[r]));
      } catch (const std::runtime_error& e) {
        EXPECT_THAT(e.what(), HasSubstr("this rank dies"));
      }
    });
  }
  threads.clear();
  return all;
}

std::vector<int> counts(const Shares& o) {
  std::vector<int> of_ranks;
  for (const RankShare& s : o.shares) of_ranks.push_back(s.shards);
  return of_ranks;
}

TEST(ShareTuner, AFasterRankDoesMoreShardsWithTheBytesOfOneProcess) {
  for (const int accumulate : {1, 3}) {
    Tuning c;
    c.config.accumulate = accumulate;
    const std::vector<Shares> all = by_unequal_ranks(c);
    for (const Shares& o : all) {
      EXPECT_TRUE(o.bytes == alone_for(c.config)) << "other bytes";
      EXPECT_THAT(counts(o), ElementsAre(5, 2, 1));
    }
    const double parts = accumulate;
    EXPECT_EQ(all[2].shares[1].shard_s, 2 * parts);
    EXPECT_TRUE(all[1].said.empty()) << "rank 0 speaks for all";
    EXPECT_THAT(all[0].said, ElementsAre(text_of(all[0].shares)));
  }
}

// After the fourth step; there are two an epoch, or five, or one.
TEST(ShareTuner, SharesMoveBetweenTwoStepsWhetherOrNotAnEpochEndsThere) {
  for (const int64_t batch : {48, 18, 70}) {
    Tuning c;
    c.config = longer(batch == 70 ? 8 : 4, 8);
    c.config.batch = batch;
    for (const Shares& o : by_unequal_ranks(c)) {
      EXPECT_TRUE(o.bytes == alone_for(c.config)) << "other bytes, batch " << batch;
      EXPECT_THAT(counts(o), ElementsAre(5, 2, 1));
    }
  }
}

TEST(ShareTuner, MovesNoSlicesOfAShardedOptimizerAndClipsAsBefore) {
  Tuning c{.exchange = {.shard_optimizer = true}};
  c.config.optimizer.clip_norm = 0.05;
  for (const Shares& o : by_unequal_ranks(c)) {
    EXPECT_TRUE(o.bytes == alone_for(c.config)) << "other bytes";
    EXPECT_THAT(counts(o), ElementsAre(5, 2, 1));
  }
}

TEST(ShareTuner, ASchedulesTimesAreMeasuredOnceSharesAreSettled) {
  const Tuning c{.config = longer(8, 8),
                 .tuning = {.schedule = "auto",
                            .plan = {.evaluations = 100},
                            .collectives = {.least_elements = 64, .budget_s = 0}},
                 .real_clock = true};
  const std::vector<Shares> all = by_unequal_ranks(c);
  for (const Shares& o : all) EXPECT_TRUE(o.bytes == alone_for(c.config)) << "other bytes";
  ASSERT_GE(all[0].said.size(), 3U);
  EXPECT_THAT(all[0].said[0], HasSubstr("shares: rank 0 does"));
  EXPECT_THAT(all[0].said[1], HasSubstr("auto: measured collectives"));
  EXPECT_THAT(all[0].said[2], HasSubstr("predicted"));
}

// Rank 1 dies in its second step, before the measuring ends, or in its tenth.
TEST(ShareTuner, ThoseThatAreLeftGoOnByWhatTheyTake) {
  log::set_level(log::Level::kError);
  for (const int64_t steps : {1, 9}) {
    SCOPED_TRACE(steps);
    const Tuning c{.rank_1_dies_after = steps};
    const std::vector<Shares> all = by_unequal_ranks(c);
    for (const size_t r : {0, 2}) {
      EXPECT_TRUE(all[r].bytes == alone_for(c.config)) << "other bytes";
      EXPECT_THAT(counts(all[r]), ElementsAre(7, 1));
      ASSERT_EQ(all[r].shares.size(), 2U);
      EXPECT_EQ(all[r].shares[1].rank, 2);
      EXPECT_EQ(all[r].shares[1].shard_s, 4);
    }
    EXPECT_EQ(all[0].said.size(), steps == 1 ? 1U : 2U) << "before and after the loss";
  }
  log::set_level(log::Level::kInfo);
}

TEST(ShareTuner, WhatCannotBeMeasuredStaysEqualAndIsSaid) {
  const auto said = [](const Tuning& c) {
    const std::vector<Shares> all = by_unequal_ranks(c);
    for (const Shares& o : all) {
      EXPECT_TRUE(o.bytes == alone_for(c.config)) << "other bytes";
      EXPECT_THAT(o.shares, IsEmpty());
    }
    return all[0].said.empty() ? "" : all[0].said[0];
  };
  EXPECT_THAT(said({.config = longer(4, 3)}),
              AllOf(HasSubstr("each of 3 ranks does one of 3 shards"), HasSubstr("more --shards")));
  EXPECT_THAT(said({.config = longer(1, 8)}), HasSubstr("2 steps are too few to measure"));
  EXPECT_THAT(said({.config = longer(4, 8), .shard_s = {1}}), HasSubstr("one rank does all"));
  EXPECT_THAT(said({.config = longer(4, 8), .shard_s = {1, 0}}),
              HasSubstr("no step of rank 1 could be timed"));
}

TEST(ShareTuner, SaysWhoDoesHowManyAndWhatOneTakes) {
  const RankShare shares[] = {{0, 5, 0.41}, {1, 3, 0.7}};
  EXPECT_EQ(text_of(shares),
            "shares: rank 0 does 5 of 8 shards (0.41 s a shard), rank 1 3 (0.7 s)");
}

}  // namespace
}  // namespace ndtrain
