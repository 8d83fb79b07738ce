// The gradient of a site is the same, whichever way its ranks add it up.
#include "framework/sparse/sync/site_gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "tests/comm/rank_threads.h"
#include "tests/sparse/one_tensor.h"
#include "tests/sparse/sync/summands.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h
using support::TemporaryDirectory;

// A rank with three shards, and parameters that take several buckets.
class RankWithGradient {
 public:
  RankWithGradient(Communicator& communicator, int rank, const std::vector<int>& sites,
                   const std::string& shared_memory)
      : parameters_(parameters()),
        optimizer_({}, parameters_, cpu()),
        shards_{kShards * rank, kShards * rank + kShards},
        sums_(parameters_.size(), shards_, kShards * communicator.ranks(), cpu(),
              parameters_.gradients()),
        gradient_({parameters_, optimizer_, sums_, nullptr, cpu()}, communicator,
                  Sites(communicator, sites), shared_memory) {}

  // Slots become ready in this order.
  std::vector<float> step(uint64_t number, const std::vector<size_t>& order) {
    gradient_.enqueue();
    for (int v = shards_.begin; v < shards_.end; ++v) {
      for (const ParameterSlot& slot : parameters_.slots()) {
        fill({sums_.shard(v) + slot.range.begin, static_cast<size_t>(slot.range.size())},
             1000 * number + static_cast<uint64_t>(v));
      }
      sums_.add(v, {0, parameters_.size()});
    }
    for (const size_t slot : order) gradient_.ready(slot);
    double waited = 0;
    gradient_.end(waited);
    gradient_.end(waited);
    return {sums_.sums()[0], sums_.sums()[0] + parameters_.size()};
  }

 private:
  static constexpr int kShards = 3;  // the sums of which are of two subtrees, for some ranks

  static ParameterSpace parameters() {
    Graph g;
    std::vector<ValueId> all;
    for (const int64_t count : {700'000, 500'001, 30, 1'200'000, 7}) {
      all.push_back(g.add_param("w" + std::to_string(count), Tensor({DType::kF32, {count}})));
    }
    return {g, all, cpu()};
  }

  ParameterSpace parameters_;
  Optimizer optimizer_;
  const ShardRange shards_;
  ShardSums sums_;
  SiteGradient gradient_;
};

// Of each rank, of all steps.
std::vector<std::vector<float>> gradients(const std::vector<int>& sites,
                                          const std::string& shared_memory) {
  std::vector<std::vector<float>> all(sites.size());
  on_ranks(static_cast<int>(sites.size()), [&](Communicator& communicator, int rank) {
    RankWithGradient one(communicator, rank, sites, shared_memory);
    const std::vector<size_t> orders[] = {{4, 3, 2, 1, 0}, {0, 2, 1, 4, 3}, {4, 3}, {}};
    for (uint64_t step = 0; step < std::size(orders); ++step) {
      const auto which = (step + static_cast<uint64_t>(rank)) % std::size(orders);
      const std::vector<float> sum = one.step(step, orders[which]);
      auto& to = all[static_cast<size_t>(rank)];
      to.insert(to.end(), sum.begin(), sum.end());
    }
  });
  return all;
}

TEST(SiteGradient, HasTheSameBytesInSharedMemoryAndByMessages) {
  for (const std::vector<int>& sites :
       {std::vector{1, 1}, {0, 0, 0}, {0, 0, 0, 0}, {3, 1, 1, 3, 2}}) {
    const auto by_messages = gradients(sites, "");
    const auto in_memory = gradients(sites, HostMemory::kDirectory);
    for (size_t r = 0; r < sites.size(); ++r) {
      EXPECT_TRUE(same_bits(by_messages[r], in_memory[r])) << "rank " << r;
      const auto first = std::ranges::find(sites, sites[r]) - sites.begin();
      EXPECT_TRUE(same_bits(in_memory[r], in_memory[static_cast<size_t>(first)]));
    }
  }
}

TEST(SiteGradient, OfARankThatIsLostThrows) {
  const TemporaryDirectory directory;
  for (const char* how : {"before", "in"}) {
    comm_tests::run_ranks(3, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      RankWithGradient one(communicator, rank, {0, 0, 0}, directory.path());
      if (std::string(how) == "in") one.step(0, {});
      if (rank == 1) return;
      EXPECT_THROW(one.step(1, {4, 3, 2, 1, 0}), RankLost) << how;
    });
    EXPECT_TRUE(real_fs().list(directory.path()).or_throw().empty());
  }
}

}  // namespace
}  // namespace ndtrain
