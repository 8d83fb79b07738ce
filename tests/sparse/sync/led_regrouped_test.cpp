// Ranks over slow links that do what rank 0 is told, and keep files beside its checkpoints, go on
// with one model whoever dies at any message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/log.h"
#include "framework/sparse/local/local_steps.h"
#include "framework/sparse/sync/regrouped_training.h"
#include "framework/sparse/sync/sparse_sync.h"
#include "tests/parallel/led_rows.h"
#include "tests/parallel/mortal_transport.h"
#include "tests/sparse/slow_link_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

struct Led {
  Bytes bytes;  // rank 0's
  std::string error;
  bool ended = false;  // by order of rank 0
  int regrouped = 0;
  std::map<std::string, Tensor> parameters;  // in the end
};

std::unique_ptr<RegroupedTraining> mortal_rank(const SlowLinkWay& way, Fs& fs, size_t rank,
                                               std::unique_ptr<Transport> transport, int64_t life) {
  const Model m = small_net(true, 0.3);
  return std::make_unique<RegroupedTraining>(
      m, weights_of(m), cpu(), config_of({}, 4),
      std::make_unique<Communicator>(std::make_unique<MortalTransport>(std::move(transport), life),
                                     Communicator::Options{.in_flight = 1, .regroups = true}),
      SlowLinkTraining::Options{.drain_every = 2,
                                .files = StateFiles(fs, "run" + std::to_string(rank), "own-")},
      way.make);
}

void take_what_there_is(RegroupedTraining& training, Led& to) {
  to.regrouped = training.regrouped();
  for (const auto& [name, t] : training.model().initialisers) {
    if (t.type().dtype == DType::kF32) to.parameters[name] = t;
  }
  to.ended = true;
}

std::vector<Led> led(const SlowLinkWay& way, const std::vector<int64_t>& lives) {
  auto transports = memory_transports(static_cast<int>(lives.size()));
  MemoryFs fs;
  std::vector<Led> all(lives.size());
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < lives.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        auto ranks = mortal_rank(way, fs, r, std::move(transports[r]), lives[r]);
        RegroupedTraining& by_ranks = *ranks;
        if (r == 0) {
          LeaderRows rows;
          LeadingTraining training(std::move(ranks), rows);
          all[r].bytes = drive(training, rows, [&] { training.use_rows(); });
          training.end();
          take_what_there_is(by_ranks, all[r]);
        } else {
          FollowerRows rows;
          if (follow(by_ranks, rows) == FollowEnd::kOver) take_what_there_is(by_ranks, all[r]);
        }
      } catch (const std::exception& e) {
        all[r].error = e.what();
      }
    });
  }
  threads.clear();
  return all;
}

class LedRegrouped : public ::testing::Test {
 protected:
  LedRegrouped() { log::set_level(log::Level::kError); }
  ~LedRegrouped() override { log::set_level(log::Level::kInfo); }

  void die_at_any_message(const SlowLinkWay& way) {
    const Bytes undisturbed = led(way, {kForever, kForever, kForever})[0].bytes;
    int disturbed = 0;
    for (int64_t life = 0;; life += 7) {
      SCOPED_TRACE("rank 1 lives for " + std::to_string(life));
      const std::vector<Led> all = led(way, {kForever, life, kForever});
      ASSERT_EQ(all[0].error, "");
      ASSERT_EQ(all[2].error, "");
      ASSERT_TRUE(all[0].ended && all[2].ended);
      for (const auto& [name, t] : all[0].parameters) {
        ASSERT_TRUE(std::ranges::equal(t.as<float>(), all[2].parameters.at(name).as<float>()));
      }
      ASSERT_EQ(all[0].bytes.size(), undisturbed.size());
      EXPECT_EQ(all[0].regrouped > 0 || all[0].bytes == undisturbed, true);
      disturbed += all[0].regrouped;
      if (all[1].ended) break;
    }
    EXPECT_GT(disturbed, 20);
  }
};

TEST_F(LedRegrouped, BySparseGradientsTheOthersGoOnWithOneModel) {
  die_at_any_message(
      slow_link_way<SparseSync>(SparseSyncOptions{.compressor = "randomk", .drop = 0.9}));
}

TEST_F(LedRegrouped, BySparseGradientsUnderWayTheOthersGoOnWithOneModel) {
  die_at_any_message(
      slow_link_way<SparseSync>(SparseSyncOptions{.drop = 0.9, .pieces = true, .staleness = 1}));
}

TEST_F(LedRegrouped, ByLocalStepsTheOthersGoOnWithOneModel) {
  die_at_any_message(slow_link_way<LocalSteps>(
      LocalStepsOptions{.inner_steps = 2, .compressor = "topk", .drop = 0.5}));
}

TEST_F(LedRegrouped, TwoThatDieLeaveTheOthersWithOneModel) {
  const SlowLinkWay way = slow_link_way<SparseSync>(SparseSyncOptions{.drop = 0.9});
  for (const int64_t first : {1, 9, 30, 77, 140, 300}) {
    for (const int64_t apart : {0, 1, 2, 4, 7, 12, 20}) {
      SCOPED_TRACE(std::to_string(first) + " and " + std::to_string(apart));
      const std::vector<Led> all = led(way, {kForever, first, kForever, first + apart});
      ASSERT_EQ(all[0].error + all[2].error, "");
      for (const auto& [name, t] : all[0].parameters) {
        ASSERT_TRUE(std::ranges::equal(t.as<float>(), all[2].parameters.at(name).as<float>()));
      }
    }
  }
}

}  // namespace
}  // namespace ndtrain
