// Ranks over slow links that die at any message: the others go on from a position that all had come
// to, each with what it had not sent, as a training by so many ranks does that begins there.
#include "framework/sparse/sync/regrouped_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <set>

#include "framework/core/log.h"
#include "tests/sparse/sync/mortal_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

constexpr int kRanks = 3, kDies = 1;

// At every position of an undisturbed training, of each rank; and what it ends with.
struct Undisturbed {
  std::vector<std::vector<SlowLinkTraining::Kept>> positions{kRanks};
  std::vector<std::string> bytes{kRanks};
};

Undisturbed undisturbed(const NamedWay& w) {
  Undisturbed all;
  auto transports = memory_transports(kRanks);
  on_threads(kRanks, [&](size_t r) {
    const Model m = small_net(true, 0.3);
    SlowLinkTraining* now = nullptr;
    SlowLinkTraining::Options options{
        .drain_every = kDrainEvery, .sites = w.sites, .on_drained = [&] {
          all.positions[r].push_back(now->keep());
        }};
    SlowLinkTraining training(m, weights_of(m), cpu(), config_of(w), talk(std::move(transports[r])),
                              options, w.make);
    now = &training;
    all.positions[r].push_back(training.keep());
    TensorDataset data = stripes(kRows, 3);
    while (training.epoch() < kEpochs) {
      EpochResult result;
      EXPECT_TRUE(training.train_epoch(data, result, {}));
      all.positions[r].push_back(training.keep());
      all.bytes[r] = bytes_of(training.checkpoint(), result);
    }
    barrier(training.communicator());
  });
  return all;
}

// Those that are left, as a training of their own from there.
std::map<size_t, std::string> by_two_from(const NamedWay& w, const Undisturbed& all, size_t at) {
  const std::vector<size_t> left = {0, 2};
  std::vector<std::string> bytes(left.size());
  auto transports = memory_transports(2);
  on_threads(2, [&](size_t r) {
    const Model m = small_net(true, 0.3);
    SlowLinkTraining training(m, weights_of(m), cpu(), config_of(w), talk(std::move(transports[r])),
                              {.drain_every = kDrainEvery}, w.make);
    training.go_on_from(all.positions[left[r]][at]);
    bytes[r] = rest_of(training);
    barrier(training.communicator());
  });
  return {{0, bytes[0]}, {2, bytes[1]}};
}

class RegroupedTrainingTest : public ::testing::TestWithParam<NamedWay> {
 protected:
  RegroupedTrainingTest() { log::set_level(log::Level::kError); }
  ~RegroupedTrainingTest() override { log::set_level(log::Level::kInfo); }
};

TEST_P(RegroupedTrainingTest, ARankThatDiesAtAnyMessageLeavesATrainingOfTheOthersFromAPosition) {
  const NamedWay& w = GetParam();
  const Undisturbed all = undisturbed(w);
  std::map<std::string, size_t> from_of;  // the bytes of rank 0 to where its group began
  std::vector<std::map<size_t, std::string>> expected;
  for (size_t at = 0; at < all.positions[0].size(); ++at) {
    const bool over = at + 1 == all.positions[0].size();
    expected.push_back(over ? std::map<size_t, std::string>{{0, all.bytes[0]}, {2, all.bytes[2]}}
                            : by_two_from(w, all, at));
    from_of.emplace(expected.back().at(0), at);
  }
  EXPECT_GE(from_of.size(), all.positions[0].size() - 1)
      << "where they begin has to make a difference";
  std::set<size_t> begun_at;
  for (int64_t life = 0;; life += 5) {
    SCOPED_TRACE(w.name + ", rank 1 lives for " + std::to_string(life));
    const std::vector<End> ends = mortal(w, {kForever, life, kForever});
    ASSERT_EQ(ends[0].error + ends[2].error, "");
    expect_same_parameters(ends[0], ends[2]);
    if (ends[0].losses.empty()) {
      EXPECT_EQ(ends[0].bytes == all.bytes[0] && ends[2].bytes == all.bytes[2], true);
      if (ends[1].error.empty()) break;
      continue;
    }
    ASSERT_TRUE(from_of.contains(ends[0].bytes));
    const size_t at = from_of.at(ends[0].bytes);
    EXPECT_EQ(ends[2].bytes == expected[at].at(2), true);
    EXPECT_EQ(ends[0].losses.size(), 1U);
    EXPECT_EQ(ends[0].losses[0].lost, RankGroup{kDies});
    EXPECT_EQ(ends[0].losses[0].left, (RankGroup{0, 2}));
    EXPECT_EQ(ends[0].losses[0].step, all.positions[0][at].checkpoint.step);
    EXPECT_EQ(ends[0].losses[0].epoch, all.positions[0][at].checkpoint.epoch);
    EXPECT_GT(ends[0].steps, 0);
    begun_at.insert(at);
  }
  EXPECT_GE(begun_at.size(), 4U) << w.name;
}

// So nothing is lost with one of them, if another is left.
TEST(RegroupedTraining, EachRankOfASiteHasAllThatTheSiteHasNotSent) {
  for (NamedWay w : ways()) {
    w.sites = {0, 1, 1};
    const Undisturbed all = undisturbed(w);
    for (size_t at = 0; at < all.positions[1].size(); ++at) {
      const auto &one = all.positions[1][at].state, &other = all.positions[2][at].state;
      ASSERT_EQ(one.size(), other.size()) << w.name;
      for (const auto& [name, t] : one) {
        EXPECT_EQ(std::memcmp(t.data(), other.at(name).data(), t.bytes()), 0) << w.name << name;
      }
    }
  }
}

// Of a rank that lost its file, or is new there.
TEST(RegroupedTraining, ARankOfASiteGetsWhatItHasLostFromAnother) {
  for (const NamedWay& w : ways()) {
    const SlowLinkWay way{w.make, {.drain_every = kDrainEvery, .sites = {0, 1, 1}}};
    std::vector<std::string> expected;
    for (const int lost : {0, 1, 2}) {
      SCOPED_TRACE(w.name + ", " + std::to_string(lost));
      MemoryFs fs;
      const Checkpoint saved = stopped_after(1, kRanks, config_of(w), way, fs);
      const std::string rank = std::to_string(lost);
      const std::string file = "run" + rank + "/rank" + rank + "-epoch" +
                               std::to_string(saved.epoch) + "-step" + std::to_string(saved.step) +
                               ".safetensors";
      if (lost > 0) fs.remove(file).or_throw();
      const std::vector<std::string> bytes = resumed(saved, kRanks, config_of(w), way, fs);
      if (lost == 0) expected = bytes;
      EXPECT_TRUE(bytes == expected);
    }
  }
}

TEST_P(RegroupedTrainingTest, TheLastRankGoesOnAlone) {
  const std::vector<End> ends = mortal(GetParam(), {kForever, 40, 90});
  EXPECT_EQ(ends[0].error, "");
  EXPECT_NE(ends[0].bytes, "");
  EXPECT_EQ(ends[0].losses.size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Ways, RegroupedTrainingTest, ::testing::ValuesIn(ways()),
                         [](const auto& of) { return of.param.name; });

TEST(RegroupedTraining, TwoThatDieOneAfterTheOtherLeaveTheOthersWithOneModel) {
  log::set_level(log::Level::kError);
  const NamedWay w = ways()[1];
  for (const int64_t first : {3, 40, 95, 131}) {
    for (const int64_t apart : {0, 1, 2, 3, 5, 8, 13, 21}) {
      SCOPED_TRACE(std::to_string(first) + " and " + std::to_string(apart));
      const std::vector<End> ends = mortal(w, {kForever, first, first + apart, kForever});
      ASSERT_EQ(ends[0].error + ends[3].error, "");
      expect_same_parameters(ends[0], ends[3]);
    }
  }
  log::set_level(log::Level::kInfo);
}

// A checkpoint of rank 0 may belong to either, whenever it is killed.
TEST(RegroupedTraining, FilesOfTheLastTwoPositionsStayThroughALoss) {
  log::set_level(log::Level::kError);
  const NamedWay w = ways()[0];
  MemoryFs fs;
  std::atomic<bool> gone = false;
  auto transports = memory_transports(kRanks);
  on_threads(kRanks, [&](size_t r) {
    const Model m = small_net(true, 0.3);
    RegroupedTraining training(
        m, weights_of(m), cpu(), config_of(w),
        std::make_unique<Communicator>(std::move(transports[r]),
                                       Communicator::Options{.in_flight = 1, .regroups = true}),
        {.drain_every = kDrainEvery,
         .files = StateFiles(fs, "run", "of" + std::to_string(r) + "-")},
        w.make);
    TensorDataset data = stripes(kRows, 3);
    EpochResult result;
    EXPECT_TRUE(training.train_epoch(data, result));
    EXPECT_TRUE(training.gathered());
    barrier(training.communicator());
    if (r == kDies) {
      gone = true;
      return;
    }
    while (!gone) std::this_thread::yield();
    EXPECT_TRUE(training.train_epoch(data, result));
    EXPECT_EQ(training.regrouped(), 1);
    EXPECT_TRUE(training.gathered());
    leave(training);
  });
  const std::vector<std::string> files = fs.list("run").or_throw();
  EXPECT_THAT(files, ::testing::UnorderedElementsAre(
                         "of0-epoch1-step0.safetensors", "of0-epoch2-step0.safetensors",
                         "of1-epoch1-step0.safetensors", "of2-epoch1-step0.safetensors",
                         "of2-epoch2-step0.safetensors"));
  log::set_level(log::Level::kInfo);
}

// Also where it dies between what one and another have written, and some are at the next epoch
// already: a checkpoint is no collective then.
TEST(RegroupedTraining, FilesAreThereBehindEachEpochWheneverARankDies) {
  log::set_level(log::Level::kError);
  const NamedWay w = ways()[1];
  const std::string undisturbed = mortal(w, {kForever, kForever, kForever})[0].bytes;
  int lost = 0;
  for (int64_t life = 0;; ++life) {
    SCOPED_TRACE("rank 1 lives for " + std::to_string(life));
    MemoryFs fs;
    const std::vector<End> ends = mortal(w, {kForever, life, kForever}, &fs);
    ASSERT_EQ(ends[0].error + ends[2].error, "");
    expect_same_parameters(ends[0], ends[2]);
    const std::string last = "-epoch" + std::to_string(kEpochs) + "-step0.safetensors";
    EXPECT_TRUE(fs.exists("run/of0" + last));
    EXPECT_TRUE(fs.exists("run/of2" + last));
    if (ends[0].losses.empty()) {
      EXPECT_TRUE(ends[0].bytes == undisturbed);
      if (ends[1].error.empty()) break;
      continue;
    }
    ++lost;
  }
  EXPECT_GT(lost, 40);
  log::set_level(log::Level::kInfo);
}

TEST(RegroupedTraining, WithoutRankZeroTheOthersEnd) {
  log::set_level(log::Level::kError);
  for (const int64_t life : {0, 31, 77}) {
    const std::vector<End> ends = mortal(ways()[0], {life, kForever, kForever});
    for (const size_t r : {1, 2}) {
      EXPECT_THAT(ends[r].error, ::testing::HasSubstr("rank 0, which leads, is lost"));
    }
  }
  log::set_level(log::Level::kInfo);
}

}  // namespace
}  // namespace ndtrain
