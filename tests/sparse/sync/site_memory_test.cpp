// Sums in memory that ranks share are those of messages.
#include "framework/sparse/sync/site_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/log.h"
#include "tests/comm/rank_threads.h"
#include "tests/sparse/one_tensor.h"
#include "tests/sparse/sync/summands.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h
using comm_tests::carry_out;
using support::TemporaryDirectory;

TEST(SiteMemory, AddsUpAsMessagesDo) {
  constexpr int64_t kValues = 1000;
  const std::vector<ParameterRange> ranges = {{0, 600}, {600, 602}, {602, kValues}};
  for (const int ranks : {2, 3, 4, 5}) {
    const TemporaryDirectory directory;
    on_ranks(ranks, [&](Communicator& communicator, int rank) {
      const RankGroup group = communicator.members();
      const auto memory = SiteMemory::share(communicator, group, kValues, directory.path());
      ASSERT_TRUE(memory);
      std::vector<float> own(kValues);
      for (uint64_t step = 0; step < 5; ++step) {
        fill(own, step * 8 + static_cast<uint64_t>(rank));
        std::vector<float> expected = own;
        carry_out(communicator,
                  {.kind = CommOp::Kind::kAllReduce, .group = group, .data = expected});
        for (const ParameterRange& r : ranges) memory->lay_down(r, own.data() + r.begin);
        barrier(communicator);
        for (const ParameterRange& r : ranges) memory->add_up(r, own.data() + r.begin);
        barrier(communicator);
        for (const ParameterRange& r : ranges) memory->take(r, own.data() + r.begin);
        EXPECT_TRUE(same_bits(own, expected)) << ranks << " ranks, step " << step;
      }
    });
  }
}

TEST(SiteMemory, LeavesNoName) {
  const TemporaryDirectory directory;
  on_ranks(3, [&](Communicator& communicator, int rank) {
    if (rank > 0) {
      EXPECT_TRUE(SiteMemory::share(communicator, {1, 2}, 10, directory.path()));
    }
    barrier(communicator);
    EXPECT_TRUE(real_fs().list(directory.path()).or_throw().empty());
  });
}

// All of them do without, and it is said once.
TEST(SiteMemory, IsThereForAllOrForNone) {
  const TemporaryDirectory host, other, log;
  const std::string file = log.at("log");
  struct Case {
    std::vector<std::string> directories;
    std::string said;
  };
  const std::vector<Case> cases = {{{host.path(), host.path(), other.path()}, "at rank 2 "},
                                   {{host.path(), other.path(), other.path()}, "at rank 1 "},
                                   {{host.at("absent"), host.path(), host.path()}, "at rank 0 "}};
  for (const Case& c : cases) {
    log::to_file(file);
    on_ranks(3, [&](Communicator& communicator, int rank) {
      const std::string& directory = c.directories[static_cast<size_t>(rank)];
      EXPECT_FALSE(SiteMemory::share(communicator, communicator.members(), 10, directory));
    });
    log::to_file("");
    EXPECT_THAT(real_fs().read(file).or_throw(),
                ::testing::HasSubstr("ranks 0, 1, 2 of a site add up gradients by messages, not in "
                                     "memory that they share: " +
                                     c.said));
    EXPECT_TRUE(real_fs().list(host.path()).or_throw().empty());
    real_fs().remove(file).or_throw();
  }
}

}  // namespace
}  // namespace ndtrain
