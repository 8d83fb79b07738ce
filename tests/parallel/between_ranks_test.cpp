#include "framework/parallel/between_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

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

// Bytes that a rank announces are asked of the system before they come.
TEST(BetweenRanks, MoreBytesThanThereCanBeAreRefused) {
  const auto announced = [](Communicator& comm, CommOp::Kind kind, uint64_t bytes) {
    auto words = std::bit_cast<std::array<float, 2>>(bytes);
    std::vector<float> data(words.begin(), words.end());
    if (kind == CommOp::Kind::kAllGather) data.resize(2 * words.size());
    CommOp op{.kind = kind, .group = comm.members(), .name = "sizes"};
    op.data = data;
    op.root = 0;
    const Communicator::Op id = comm.enqueue(std::move(op));
    comm.release(id);
    comm.wait(id);
  };
  for (const uint64_t bytes : {uint64_t{1} << 50, uint64_t{1} << 63, UINT64_MAX - 1}) {
    SCOPED_TRACE(bytes);
    const auto refused = ::testing::HasSubstr("a rank announces " + std::to_string(bytes));
    run_ranks(2, [&](Communicator& comm) {
      if (comm.rank() == 0) {
        announced(comm, CommOp::Kind::kBroadcast, bytes);
        announced(comm, CommOp::Kind::kAllGather, bytes);
      } else {
        EXPECT_THAT(testing::error_of([&] { (void)broadcast(comm, 0, ""); }), refused);
        EXPECT_THAT(testing::error_of([&] { (void)gather(comm, ""); }), refused);
      }
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
