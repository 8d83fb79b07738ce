// Stages that do what rank 0 is told end up with what one process does, whoever is lost on the way:
// those that are left meet again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "framework/core/log.h"
#include "framework/parallel/led_training.h"
#include "framework/parallel/restarted_training.h"
#include "tests/parallel/led_rows.h"
#include "tests/parallel/mortal_transport.h"
#include "tests/pipeline/run/training_by_stages.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_stages.h

constexpr int64_t kParts = 4;

Network led_net() { return network(skipping_net(true, 0.3)); }
TrainerConfig config() { return config_by_parts(kParts, {.kind = OptimizerConfig::Kind::kAdam}); }

std::unique_ptr<PipelineTraining> training_of(std::unique_ptr<Transport> transport, int64_t life,
                                              const PipelineTraining::Options& options) {
  const Network n = led_net();
  return std::make_unique<PipelineTraining>(
      n.model, n.trained, cpu(), config(),
      std::make_unique<Communicator>(std::make_unique<MortalTransport>(std::move(transport), life),
                                     Communicator::Options{.in_flight = 1, .regroups = true}),
      options);
}

// Where those that are left meet again.
class MeetingPlace {
 public:
  // Rank 0's: the others get theirs.
  std::unique_ptr<Transport> call(int ranks) {
    auto transports = memory_transports(ranks);
    const std::lock_guard lock(mutex_);
    for (size_t r = 1; r < transports.size(); ++r) waiting_.push_back(std::move(transports[r]));
    changed_.notify_all();
    return std::move(transports[0]);
  }
  // Null: it is over.
  std::unique_ptr<Transport> come() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return over_ || !waiting_.empty(); });
    if (over_) return nullptr;
    auto transport = std::move(waiting_.back());
    waiting_.pop_back();
    return transport;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Transport>> waiting_;
  bool over_ = false;
};

struct Result {
  Bytes bytes;
  int restarts = 0;
  std::vector<int64_t> handed;  // rows, to each of the others
};

// Rank 1 has this life; when it is over the others are one less, or it begins another.
Result led(int ranks, int64_t life, const PipelineTraining::Options& options,
           bool comes_back = false) {
  Result result;
  result.handed.resize(static_cast<size_t>(ranks));
  MeetingPlace place;
  auto transports = memory_transports(ranks);
  std::vector<std::jthread> others;
  for (int r = 1; r < ranks; ++r) {
    others.emplace_back(
        [&, r, transport = std::move(transports[static_cast<size_t>(r)])]() mutable {
          FollowerRows rows;
          int64_t left = r == 1 ? life : kForever;
          while (transport) {
            try {
              const auto training = training_of(std::move(transport), left, options);
              if (follow(*training, rows) == FollowEnd::kOver) break;
            } catch (const std::exception&) {  // a rank is lost: it, or another
            }
            if (left != kForever && !comes_back) break;
            left = kForever;
            transport = place.come();
          }
          result.handed[static_cast<size_t>(r)] = rows.handed;
        });
  }
  LeaderRows rows;
  int here = ranks;
  auto leading = std::make_unique<LeadingTraining>(
      training_of(std::move(transports[0]), kForever, options), rows);
  RestartedTraining training(*leading, [&](const RankLost&) -> Training& {
    ++result.restarts;
    leading.reset();
    here -= comes_back ? 0 : 1;
    leading =
        std::make_unique<LeadingTraining>(training_of(place.call(here), kForever, options), rows);
    if (!rows.description().empty()) leading->use_rows();
    return *leading;
  });
  result.bytes =
      drive(training, rows, [&] { training.with_restarts([&] { leading->use_rows(); }); });
  training.with_restarts([&] { leading->end(); });
  place.close();
  others.clear();
  return result;
}

class LedStages : public ::testing::Test {
 protected:
  LedStages() { log::set_level(log::Level::kError); }
  ~LedStages() override { log::set_level(log::Level::kInfo); }

  static Bytes one_process() {
    const Network n = led_net();
    Trainer trainer(n.model, n.trained, cpu(), config());
    LeaderRows rows;
    return drive(trainer, rows, [] {});
  }

  const Bytes expected = one_process();
};

TEST_F(LedStages, HaveTheBytesOfOneProcess) {
  for (const char* schedule : {"1f1b", "zb", "gpipe"}) {
    for (const int ranks : {1, 2, 3, 4}) {
      const Result r = led(ranks, kForever, {.schedule = schedule});
      EXPECT_TRUE(r.bytes == expected) << schedule << " by " << ranks;
      EXPECT_EQ(r.restarts, 0);
    }
  }
}

TEST_F(LedStages, OnlyTheOneWithTheLabelsIsHandedRows) {
  const Result r = led(4, kForever, {.schedule = "1f1b"});
  EXPECT_EQ(r.handed, (std::vector<int64_t>{0, 0, 0, 70 + 50}));
}

TEST_F(LedStages, WhenARankDiesAtAnyMessageTheOthersMeetAgainAndGiveTheBytesOfOneProcess) {
  int restarts = 0;
  for (int64_t life = 0;; life += life < 40 ? 1 : 37) {
    SCOPED_TRACE("rank 1 lives for " + std::to_string(life));
    const Result r = led(3, life, {.schedule = "1f1b"});
    ASSERT_TRUE(r.bytes == expected);
    ASSERT_LE(r.restarts, 1);
    if (r.restarts == 0) break;
    restarts += r.restarts;
  }
  EXPECT_GT(restarts, 40);
}

// Of old parameters, too, an epoch that is begun anew is the same.
TEST_F(LedStages, AnAsynchronousEpochIsBegunAnewToTheSameBytes) {
  const PipelineTraining::Options async{.schedule = "async", .drain_every = 2};
  const Bytes two = led(2, kForever, async).bytes;
  EXPECT_FALSE(two == expected);
  int restarts = 0;
  for (int64_t life = 0;; life += 13) {
    const Result r = led(2, life, async, true);
    ASSERT_TRUE(r.bytes == two) << life;
    if (r.restarts == 0) break;
    restarts += r.restarts;
  }
  EXPECT_GT(restarts, 5);
}

}  // namespace
}  // namespace ndtrain
