// Ranks of a site train as one rank with all their shards would.
#include "framework/sparse/sync/sites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "framework/sparse/local/local_steps.h"
#include "framework/sparse/low_rank/power_sgd.h"
#include "framework/sparse/sync/sparse_sync.h"
#include "tests/sparse/one_tensor.h"
#include "tests/sparse/slow_link_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

TEST(Sites, AreLedByTheirFirstMembers) {
  on_ranks(5, [](Communicator& communicator, int rank) {
    const Sites sites(communicator, {3, 1, 3, 0, 1});
    EXPECT_EQ(sites.leaders(), (RankGroup{0, 1, 3}));
    EXPECT_EQ(sites.count(), 3);
    const auto r = static_cast<size_t>(rank);
    EXPECT_EQ(sites.place(), (std::vector{0, 1, 0, 2, 1}[r]));
    EXPECT_EQ(sites.members(), (std::vector<RankGroup>{{0, 2}, {1, 4}, {0, 2}, {3}, {1, 4}}[r]));
    EXPECT_EQ(sites.leads(), rank != 2 && rank != 4);
    EXPECT_TRUE(sites.has_groups());
    EXPECT_FALSE(Sites(communicator).has_groups());
    EXPECT_EQ(Sites(communicator).place(), rank);
    EXPECT_THAT(error_of([&] {
                  Sites(communicator, {1, 2});
                }),
                ::testing::HasSubstr("sites of 2 ranks, but there are 5"));
  });
}

TEST(Sites, AreThoseThatRanksSayTheyAreOf) {
  on_ranks(5, [](Communicator& communicator, int rank) {
    const char* names[] = {"", "paris", "", "oslo", "paris"};
    const Sites sites(communicator, sites_of_ranks(communicator, names[rank]));
    EXPECT_EQ(sites.leaders(), (RankGroup{0, 1, 2, 3}));
    EXPECT_EQ(sites.members(), rank % 3 == 1 ? (RankGroup{1, 4}) : (RankGroup{rank}));
  });
}

struct NamedWay {
  std::string name;
  SlowLinkWay way;
  OptimizerConfig optimizer;
};

template <class Sync, class SyncOptions>
NamedWay way(const std::string& name, const SyncOptions& options,
             const OptimizerConfig& optimizer) {
  return {name, slow_link_way<Sync>(options, {.verify_every = 1}), optimizer};
}

std::vector<NamedWay> ways() {
  const OptimizerConfig adam{.kind = OptimizerConfig::Kind::kAdam},
      sgd{.kind = OptimizerConfig::Kind::kSgd};
  return {way<SparseSync>("sparse", SparseSyncOptions{.drop = 0.9}, adam),
          way<SparseSync>("late", SparseSyncOptions{.drop = 0.9, .staleness = 2}, sgd),
          way<SparseSync>("random",
                          SparseSyncOptions{.compressor = "randomk", .drop = 0.9, .seed = 3}, adam),
          way<SparseSync>("pieces", SparseSyncOptions{.drop = 0.9, .pieces = true}, adam),
          way<SparseSync>(
              "gtopk",
              SparseSyncOptions{.compressor = "topk", .drop = 0.9, .largest_of_sums = true}, adam),
          way<LocalSteps>("local", averaging(3), adam),
          way<LocalSteps>("streaming",
                          LocalStepsOptions{.inner_steps = 4, .fragments = 2, .overlap = 1}, adam),
          way<LocalSteps>("diloco", LocalStepsOptions{.inner_steps = 2, .compressor = "topk"}, sgd),
          way<PowerSgd>("powersgd", PowerSgdOptions{.rank = 2}, sgd)};
}

struct End {
  Checkpoint checkpoint;
  std::map<std::string, Tensor> state;  // of the sync
  int64_t sent_bytes = 0;
};

// Of ranks that are at these sites, and do these shares of the work.
std::vector<End> ends(const NamedWay& w, const std::vector<int>& sites,
                      const std::vector<double>& shares) {
  TrainerConfig config = testing::config_of(w.optimizer, 4);
  config.batch = 14;
  SlowLinkWay way = w.way;
  way.options.sites = sites;
  way.options.shares = shares;
  std::vector<End> all(shares.size());
  on_ranks_that_train(static_cast<int>(shares.size()), config, way, nullptr,
                      [&](SlowLinkTraining& training, int rank) {
                        train_on(training, kEpochs);
                        all[static_cast<size_t>(rank)] = {
                            .checkpoint = training.checkpoint(),
                            .state = training.sync().state(),
                            .sent_bytes = training.sync().sent_bytes()};
                      });
  return all;
}

void expect_same(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b,
                 const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << what << ", " << name;
    const Tensor& other = b.at(name);
    ASSERT_EQ(tensor.bytes(), other.bytes()) << what << ", " << name;
    EXPECT_EQ(std::memcmp(tensor.data(), other.data(), tensor.bytes()), 0) << what << ", " << name;
  }
}

// Parameters, running statistics, what is not sent yet and optimizers: bit for bit, where shards
// are added up in the same order.
TEST(Sites, TrainAsOneRankEachWithAllTheirShards) {
  struct Case {
    std::vector<int> sites;
    std::vector<double> shares;
    std::vector<size_t> same_as;
  };
  const std::vector<Case> cases = {{{0, 0, 1, 1}, {1, 1, 1, 1}, {0, 0, 1, 1}},
                                   {{7, 2, 2}, {2, 1, 1}, {0, 1, 1}},
                                   {{0, 0, 3}, {1, 1, 2}, {0, 0, 1}}};
  for (const NamedWay& w : ways()) {
    const std::vector<End> by_two = ends(w, {}, {1, 1});
    for (const Case& c : cases) {
      const std::vector<End> by_sites = ends(w, c.sites, c.shares);
      for (size_t r = 0; r < by_sites.size(); ++r) {
        const std::string what = w.name + ", rank " + std::to_string(r);
        const End& same = by_two[c.same_as[r]];
        const bool leads = r == 0 || c.same_as[r] != c.same_as[r - 1];
        expect_same(by_sites[r].checkpoint.parameters, same.checkpoint.parameters, what);
        expect_same(by_sites[r].checkpoint.states, same.checkpoint.states, what);
        expect_same(by_sites[r].state, same.state, what);
        EXPECT_EQ(by_sites[r].sent_bytes, leads ? same.sent_bytes : 0) << what;
      }
    }
  }
}

// Then there is nobody to send to.
TEST(Sites, MayBeOne) {
  for (const NamedWay& w : ways()) {
    const std::vector<End> by_one = ends(w, {}, {1}), by_two = ends(w, {0, 0}, {1, 1});
    for (const End& e : by_two) {
      expect_same(e.checkpoint.parameters, by_one[0].checkpoint.parameters, w.name);
      expect_same(e.state, by_one[0].state, w.name);
    }
  }
}

TEST(Sites, HaveNoControllerWhereThereIsOne) {
  on_ranks(2, [](Communicator& communicator, int rank) {
    SparseSyncOptions options;
    options.control.emplace();
    options.sites = {0, 0};
    using OneTensor = OneTensorOf<SparseSync, SparseSyncOptions>;
    EXPECT_THAT(error_of([&] { OneTensor(communicator, rank, 2, {}, options); }),
                ::testing::HasSubstr("one sends nothing"));
  });
}

}  // namespace
}  // namespace ndtrain
