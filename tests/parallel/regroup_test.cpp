// Ranks that die at any message of a training: the others end up with the bytes of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "framework/core/log.h"
#include "framework/train/local_sync.h"
#include "tests/parallel/mortal_transport.h"
#include "tests/parallel/training_by_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

struct End {
  Bytes bytes;        // of a training that was whole; of an epoch that another rank has saved: none
  std::string error;  // or why it was not
  int regrouped = 0;
  std::optional<ExchangeReport> report;  // where it was asked for, and is known
};

// Who has left already has its bytes, too.
void leave(DataParallel& training) {
  try {
    training.barrier();
  } catch (const RankLost&) {
  }
}

// As train(), but keeps a checkpoint after each epoch, and does again what was gone back behind.
Bytes train_and_save(DataParallel& training, std::optional<Checkpoint>& saved) {
  TensorDataset data = stripes(kRows, 3);
  Bytes bytes(kEpochs);
  while (training.epoch() < kEpochs) {
    std::string& of_epoch = bytes[static_cast<size_t>(training.epoch())];
    try {
      EpochResult result;
      EXPECT_TRUE(training.train_epoch(data, result, {}));
      saved = training.checkpoint();
      of_epoch = bytes_of(*saved) + " " + std::to_string(result.loss) + " " +
                 std::to_string(result.top1) + " " + std::to_string(result.top5);
    } catch (const WentBack& back) {
      EXPECT_EQ(back.best_epoch, -1);
    }
  }
  return bytes;
}

std::optional<ExchangeReport> report_of(DataParallel& training) {
  try {
    return training.exchange_report();
  } catch (const RankLost&) {
    return std::nullopt;
  }
}

// Rank r lives for lives[r] messages. With `saves`, it trains as above.
std::vector<End> mortal_ranks(const std::vector<int64_t>& lives, const TrainerConfig& config,
                              DataParallel::Options options, bool saves = false,
                              bool reports = false) {
  options.regroup = true;
  auto transports = memory_transports(static_cast<int>(lives.size()));
  std::vector<End> ends(lives.size());
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < ends.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        const Model m = small_net(true, 0.3);
        std::optional<Checkpoint> saved;
        const Trainer* trainer = nullptr;
        DataParallel::Options own = options;
        if (saves) own.saved = [&] { return saved ? *saved : trainer->beginning(m); };
        DataParallel training(
            m, weights_of(m), cpu(), config,
            std::make_unique<Communicator>(
                std::make_unique<MortalTransport>(std::move(transports[r]), lives[r]),
                Communicator::Options{.in_flight = 1, .regroups = true}),
            own);
        trainer = &training.trainer();
        ends[r].bytes = saves ? train_and_save(training, saved) : train(training);
        ends[r].regrouped = training.regrouped();
        if (reports) ends[r].report = report_of(training);
        leave(training);
      } catch (const std::exception& e) {
        ends[r].error = e.what();
      }
    });
  }
  threads.clear();
  return ends;
}

class Regroup : public ::testing::Test {
 protected:
  Regroup() { log::set_level(log::Level::kError); }
  ~Regroup() override { log::set_level(log::Level::kInfo); }

  const TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kAdam}, 8);
  const Bytes expected = alone(config);
};

struct Plan {
  const char* name;
  DataParallel::MakePlan make;
};

std::vector<Plan> plans() {
  return {{"at once", all_reduce_at_once},
          {"halves ahead of the forward pass", [](const auto& p) { return halves(p, 1); }},
          {"by rank 0", by_rank_0}};
}

// Those that went on to what another rank had saved have no bytes of their own of that epoch.
void expect_same(const std::vector<End>& ends, const std::set<size_t>& dead,
                 const Bytes& expected) {
  for (size_t r = 0; r < ends.size(); ++r) {
    if (dead.contains(r)) continue;
    ASSERT_EQ(ends[r].error, "") << "rank " << r;
    ASSERT_EQ(ends[r].bytes.size(), expected.size());
    for (size_t e = 0; e < expected.size(); ++e) {
      if (r > 0 && ends[r].bytes[e].empty()) continue;
      ASSERT_EQ(ends[r].bytes[e] == expected[e], true) << "rank " << r << ", epoch " << e;
    }
  }
}

// The second rank dies at every seventh message, until it lives for all of them.
void die_at_any_message(const Plan& plan, int ranks, const TrainerConfig& config, bool sharded,
                        const Bytes& expected) {
  int disturbed = 0;
  for (int64_t life = 0;; life += 7) {
    SCOPED_TRACE(std::string(plan.name) + ", ranks: " + std::to_string(ranks) +
                 ", rank 1 lives for " + std::to_string(life));
    std::vector<int64_t> lives(static_cast<size_t>(ranks), kForever);
    lives[1] = life;
    const std::vector<End> ends =
        mortal_ranks(lives, config, {.plan = plan.make, .exchange = {.shard_optimizer = sharded}},
                     /*saves=*/sharded);
    ASSERT_NO_FATAL_FAILURE(expect_same(ends, {1}, expected));
    disturbed += ends[0].regrouped;
    if (ends[1].error.empty()) break;
  }
  EXPECT_GT(disturbed, 10) << plan.name;
}

TEST_F(Regroup, ARankThatDiesAtAnyMessageLeavesUndisturbedBytes) {
  for (const Plan& plan : plans()) {
    for (const int ranks : {3, 4}) die_at_any_message(plan, ranks, config, false, expected);
  }
}

TEST_F(Regroup, TwoThatDieOneAfterTheOtherOrAtOnceLeaveUndisturbedBytes) {
  for (const int64_t first : {3, 40, 95, 131}) {
    for (const int64_t apart : {0, 1, 2, 3, 5, 8, 13, 21}) {
      SCOPED_TRACE(std::to_string(first) + " and " + std::to_string(apart));
      const std::vector<End> ends = mortal_ranks({kForever, first, first + apart, kForever}, config,
                                                 {.plan = plans()[1].make});
      for (const size_t r : {0, 3}) {
        ASSERT_EQ(ends[r].error, "");
        ASSERT_EQ(ends[r].bytes == expected, true) << "rank " << r;
      }
    }
  }
}

TEST_F(Regroup, StepsThatAreClippedInPartsAreRedoneAsTheyWere) {
  TrainerConfig clipped = config;
  clipped.optimizer.clip_norm = 0.05;
  clipped.accumulate = 2;
  const Bytes all = alone(clipped);
  EXPECT_FALSE(all == expected);
  const auto wfbp = [](const ParameterSpace& p) { return plan_by_sizes("wfbp", p, 3); };
  for (int64_t life = 1; life < 150; life += 13) {
    SCOPED_TRACE("rank 2 lives for " + std::to_string(life));
    const std::vector<End> ends = mortal_ranks({kForever, kForever, life}, clipped, {.plan = wfbp});
    EXPECT_EQ(ends[0].error, "");
    EXPECT_TRUE(ends[0].bytes == all && ends[1].bytes == all);
  }
}

// The plan changes after the fifth of six steps; before, ranks measure what collectives take.
TEST_F(Regroup, WhereOneDiesWhileAScheduleMeasuresTheOthersBeginWithTheFirstPlanAgain) {
  const DataParallel::Options measured{
      .plan = pieces_of_32,
      .tuning = {.schedule = "auto",
                 .plan = {.evaluations = 100},
                 .collectives = {.least_elements = 64, .budget_s = 0}}};
  int disturbed = 0;
  for (int64_t life = 11;; life += 97) {
    SCOPED_TRACE("rank 1 lives for " + std::to_string(life));
    const std::vector<End> ends = mortal_ranks({kForever, life, kForever}, config, measured);
    ASSERT_EQ(ends[0].error, "");
    ASSERT_EQ(ends[2].error, "");
    ASSERT_EQ(ends[0].bytes == expected && ends[2].bytes == expected, true);
    disturbed += ends[0].regrouped;
    if (ends[1].error.empty()) break;
  }
  EXPECT_GT(disturbed, 5);
}

// Of those that are left, which measure anew. A loss in or after the last step leaves nothing to.
TEST_F(Regroup, WhatAStepTakesIsKnownOfThoseThatAreLeft) {
  int known = 0, unknown = 0;
  for (int64_t life = 3;; life += 11) {
    SCOPED_TRACE("rank 1 lives for " + std::to_string(life));
    const std::vector<End> ends = mortal_ranks({kForever, life, kForever}, config,
                                               {.plan = plans()[1].make}, false, /*reports=*/true);
    ASSERT_EQ(ends[0].error + ends[2].error, "");
    ASSERT_EQ(ends[0].bytes == expected && ends[2].bytes == expected, true);
    if (ends[0].regrouped == 0) break;
    const bool both = ends[0].report && ends[2].report;
    (both ? known : unknown) += 1;
    if (!both) continue;
    for (const size_t r : {0, 2}) {
      if (ends[r].report->steps == 0) continue;
      EXPECT_NE(ends[r].report->slowest_rank, 1);
      EXPECT_GT(ends[r].report->step_s, 0);
    }
  }
  EXPECT_GT(known, 5);
  EXPECT_GT(unknown, 0);
}

const Plan kHalves = {"halves", [](const auto& p) { return halves(p, 0); }};

TEST_F(Regroup, WithAShardedOptimizerTheOthersGoBackToTheCheckpointAndHaveUndisturbedBytes) {
  for (const int ranks : {2, 3, 4}) die_at_any_message(kHalves, ranks, config, true, expected);
  die_at_any_message({"pieces", pieces_of_32}, 3, config, true, expected);
}

// The second one also while the checkpoint is shared out.
TEST_F(Regroup, TwoThatDieOneAfterTheOtherTakeTheirMomentsWithThem) {
  for (const int64_t first : {3, 40, 95, 131}) {
    for (int64_t apart = 0; apart < 40; apart += 3) {
      SCOPED_TRACE(std::to_string(first) + " and " + std::to_string(apart));
      const std::vector<End> ends =
          mortal_ranks({kForever, first, first + apart, kForever}, config,
                       {.plan = kHalves.make, .exchange = {.shard_optimizer = true}}, true);
      ASSERT_NO_FATAL_FAILURE(expect_same(ends, {1, 2}, expected));
    }
  }
}

TEST_F(Regroup, WithAShardedOptimizerAndNothingSavedTheOthersEnd) {
  const std::vector<End> ends = mortal_ranks(
      {kForever, 50, kForever}, config,
      {.plan = [](const auto& p) { return halves(p, 0); }, .exchange = {.shard_optimizer = true}});
  // Who misses a rank leaves, and may be missed first by another.
  for (const size_t r : {0, 2}) EXPECT_THAT(ends[r].error, ::testing::HasSubstr("lacks rank"));
  EXPECT_THAT(ends[0].error + ends[2].error, ::testing::HasSubstr("lacks rank 1"));
}

TEST_F(Regroup, TheLastRankGoesOnAlone) {
  const std::vector<End> ends = mortal_ranks({kForever, 50, 90}, config, {.plan = plans()[0].make});
  EXPECT_EQ(ends[0].error, "");
  EXPECT_EQ(ends[0].bytes == expected, true);
  EXPECT_EQ(ends[0].regrouped, 2);
}

TEST_F(Regroup, WithoutRankZeroTheOthersEnd) {
  for (const int64_t life : {0, 31, 77}) {
    const std::vector<End> ends =
        mortal_ranks({life, kForever, kForever}, config, {.plan = plans()[0].make});
    for (const size_t r : {1, 2}) {
      EXPECT_THAT(ends[r].error, ::testing::HasSubstr("rank 0, which leads, is lost"));
    }
  }
}

TEST_F(Regroup, AStepIsTakenBackFromOneOlderVersionOfValuesAndMoments) {
  const Model m = small_net(true, 0.3);
  std::unique_ptr<StepUndo> undo;
  Trainer trainer(m, weights_of(m), cpu(), config_of({}, 1), [&](const Trainer::Shared& s) {
    undo = std::make_unique<StepUndo>(s.parameters, s.optimizer);
    const int64_t n = s.parameters.size();
    std::vector<float> before(s.parameters.values(0), s.parameters.values(0) + n);
    std::vector<float> gradients(static_cast<size_t>(n), 0.5F);
    for (int step = 1; step <= 2; ++step) {
      const HyperParameters hyper = s.optimizer.next(0.1);
      undo->keep({0, n}, hyper.step);
      if (step == 2) before.assign(s.parameters.values(0), s.parameters.values(0) + n);
      s.optimizer.apply({0, n}, hyper, gradients.data(), s.parameters.values(0),
                        s.parameters.values(0));
    }
    EXPECT_EQ(undo->bytes(), 3 * static_cast<size_t>(n) * sizeof(float));  // of Adam
    EXPECT_FALSE(std::equal(before.begin(), before.end(), s.parameters.values(0)));
    EXPECT_THROW(undo->take_back(0), Error);
    undo->take_back(1);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), s.parameters.values(0)));
    return std::make_unique<LocalSync>(s.parameters, s.optimizer);
  });
}

}  // namespace
}  // namespace ndtrain
