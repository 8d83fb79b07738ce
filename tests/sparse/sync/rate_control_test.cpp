// Ranks whose batches and drop follow what they measure.
#include "framework/sparse/sync/rate_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "framework/sparse/sync/sparse_sync.h"
#include "tests/sparse/control/known_profiles.h"
#include "tests/sparse/slow_link_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int64_t kBatchOfAll = 8, kSomeEpochs = 25;

SparseSyncOptions controlled() {
  SparseSyncOptions options{.compressor = "topk", .drop = 0.5};
  options.control = {.profile = known_profile(ConvergenceProfile::Over::kDrop, 8, 16, {}),
                     .model = "net",
                     .batch = kBatchOfAll,
                     .passes_apart = true};
  return options;
}

TrainerConfig config(const OptimizerConfig& optimizer = {}) {
  TrainerConfig c = config_of(optimizer, 2);
  c.batch = kBatchOfAll;
  c.epochs = kSomeEpochs;
  return c;
}

// Remembers the rows that ranks have read in an epoch.
class RememberingRows final : public Dataset {
 public:
  RememberingRows(std::multiset<int64_t>& rows, std::mutex& mutex) : rows_(rows), mutex_(mutex) {}
  int64_t size() const override { return data_.size(); }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override {
    {
      const std::lock_guard lock(mutex_);
      rows_.insert(rows.begin(), rows.end());
    }
    data_.fetch(rows, inputs, labels);
  }

 private:
  TensorDataset data_ = stripes(kRows, 3);
  std::multiset<int64_t>& rows_;
  std::mutex& mutex_;
};

struct Outcome {
  std::vector<std::string> bytes, log;  // of each rank; of rank 0
  std::vector<std::multiset<int64_t>> rows =
      std::vector<std::multiset<int64_t>>(static_cast<size_t>(kSomeEpochs));
};

Outcome trained(const SparseSyncOptions& sync, int ranks = 2, const std::vector<int>& sites = {}) {
  Outcome o;
  o.bytes.resize(static_cast<size_t>(ranks));
  std::mutex mutex;
  SlowLinkWay way = slow_link_way<SparseSync>(sync, {.verify_every = 1});
  way.options.log = [&](const std::string& line) {
    const std::lock_guard lock(mutex);  // of both ranks
    o.log.push_back(line);
  };
  TrainerConfig c = config();
  c.shards = ranks;
  way.options.sites = sites;
  on_ranks_that_train(ranks, c, way, nullptr, [&](SlowLinkTraining& training, int rank) {
    for (int64_t e = 0; e < kSomeEpochs; ++e) {
      RememberingRows data(o.rows[static_cast<size_t>(e)], mutex);
      EpochResult result;
      EXPECT_TRUE(training.train_epoch(data, result));
      barrier(training.communicator());
    }
    o.bytes[static_cast<size_t>(rank)] = bytes_of(training.checkpoint());
  });
  return o;
}

TEST(RateControl, RanksGoByItAlikeAndReadEachRowOnce) {
  for (const int staleness : {0, 1}) {
    for (const int ranks : {2, 3}) {
      SparseSyncOptions sync = controlled();
      sync.staleness = staleness;
      const Outcome o = trained(sync, ranks);
      for (const std::string& b : o.bytes) EXPECT_TRUE(b == o.bytes[0]);
      for (const std::multiset<int64_t>& rows : o.rows) {
        EXPECT_EQ(rows.size(), std::set<int64_t>(rows.begin(), rows.end()).size());
        // A single row of a shard makes no batch statistics.
        EXPECT_GE(std::ssize(rows), kRows - int64_t{2} * ranks);
      }
      EXPECT_THAT(o.log, Contains(HasSubstr("batches grow")));
      EXPECT_THAT(o.log, Contains(HasSubstr("batches 16 16")));
      EXPECT_THAT(o.log, Contains(HasSubstr("batches are as large as they can be")));
      EXPECT_THAT(o.log, Contains(HasSubstr("B begins as")));
    }
  }
}

TEST(RateControl, RanksOfASiteGoByWhatItsFirstReceives) {
  SparseSyncOptions sync = controlled();
  sync.staleness = 1;
  const Outcome o = trained(sync, 3, {0, 1, 1});
  for (const std::string& b : o.bytes) EXPECT_TRUE(b == o.bytes[0]);
  EXPECT_THAT(o.log, Contains(HasSubstr("batches 16 16 16")));
  EXPECT_THAT(o.log, Contains(HasSubstr("B begins as")));
}

TEST(RateControl, OfADryRunDoesNotDependOnTimes) {
  SparseSyncOptions dry = controlled();
  dry.control->dry_run = true;
  const Outcome o = trained(dry);
  EXPECT_THAT(o.log, Contains(HasSubstr("dry run: batches 6 6")));
  EXPECT_TRUE(o.bytes == trained(dry).bytes);
}

// As if they were never to be decided, whoever measures what.
TEST(RateControl, OfOneSiteHasTheFirstBatchAndDrop) {
  SparseSyncOptions sync = controlled();
  sync.control->one_site_waits = true;
  const Outcome o = trained(sync, 2, {0, 0});
  EXPECT_TRUE(o.bytes[0] == o.bytes[1]);
  EXPECT_TRUE(o.bytes == trained(sync, 2, {0, 0}).bytes);
  EXPECT_THAT(o.log, ::testing::IsEmpty());
}

TEST(RateControl, IsNotOfSignsNorOfDropsOfTheirOwn) {
  SparseSyncOptions signs = controlled(), deep = deep_gradient_compression(0.9);
  signs.compressor = "efsignum";
  deep.control = controlled().control;
  for (const SparseSyncOptions& sync : {signs, deep}) {
    const Model m = small_net(true, 0.3);
    auto transports = memory_transports(1);
    EXPECT_THAT(error_of([&] {
                  SlowLinkTraining(m, weights_of(m), cpu(),
                                   config({.kind = OptimizerConfig::Kind::kSgd, .momentum = 0}),
                                   talk(std::move(transports[0])), {},
                                   slow_link_way<SparseSync>(sync).make);
                }),
                HasSubstr("a controller decides of the drop"));
  }
}

}  // namespace
}  // namespace ndtrain
