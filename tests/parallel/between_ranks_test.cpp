#include "framework/parallel/between_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/rank_threads.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using comm_tests::run_ranks;

TEST(BetweenRanks, ABroadcastGivesTheBytesOfItsRootWhateverTheyAre) {
  std::string all;
  for (int i = 0; i < 1001; ++i) all += static_cast<char>(i * 7);
  for (const std::string& bytes : {std::string(), std::string("abc"), all}) {
    run_ranks(3, [&](Communicator& comm) {
      const bool root = comm.rank() == 2;
      EXPECT_EQ(broadcast(comm, 2, root ? bytes : "something else"), bytes);
      barrier(comm);
    });
  }
}

TEST(BetweenRanks, OneIsSome) {
  for (const int who : {-1, 0, 2}) {
    run_ranks(3, [&](Communicator& comm) {
      EXPECT_EQ(any_of_ranks(comm, comm.rank() == who), who >= 0);
      barrier(comm);
    });
  }
}

TEST(BetweenRanks, TheFirstDifferenceEndsAllOfThemInTheSameWords) {
  std::vector<std::string> said(3);
  run_ranks(3, [&](Communicator& comm) {
    const int r = comm.rank();
    check_same(comm, {{"model", "ab"}, {"photos", "7"}});
    said[static_cast<size_t>(r)] = testing::error_of([&] {
      check_same(comm, {{"model", "ab"}, {"photos", r == 1 ? "8" : "7"}});
    });
    barrier(comm);
  });
  for (const std::string& s : said) {
    EXPECT_THAT(s, ::testing::AllOf(::testing::HasSubstr("rank 1"), ::testing::HasSubstr("photos"),
                                    ::testing::HasSubstr("8"), ::testing::HasSubstr("7")));
  }
}

}  // namespace
}  // namespace ndtrain
