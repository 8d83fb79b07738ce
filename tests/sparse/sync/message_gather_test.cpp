#include "framework/sparse/sync/message_gather.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "framework/comm/memory_transport.h"
#include "framework/parallel/between_ranks.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

void on_ranks(int ranks, const std::function<void(Communicator& communicator)>& f) {
  auto transports = memory_transports(ranks);
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      Communicator communicator(std::move(transports[static_cast<size_t>(r)]), {.in_flight = 1});
      f(communicator);
    });
  }
}

std::string bytes_of(int rank, size_t size) {
  return std::string(size, static_cast<char>('a' + rank));
}

// While collectives have their turns in another thread.
TEST(MessageGather, GivesAllRanksWhatEachHas) {
  for (const int ranks : {1, 2, 4}) {
    on_ranks(ranks, [&](Communicator& communicator) {
      std::jthread beside([&] {
        for (int i = 0; i < 20; ++i) barrier(communicator);
      });
      MessageGather gather(communicator, 0);
      for (const size_t size : {0, 1, 3, 4, 5, 70'001}) {
        const auto of = [&](int rank) { return bytes_of(rank, size + static_cast<size_t>(rank)); };
        const std::vector<std::string> all = gather.gather(of(communicator.rank()), 100'000);
        ASSERT_EQ(std::ssize(all), ranks);
        for (int r = 0; r < ranks; ++r) EXPECT_EQ(all[static_cast<size_t>(r)], of(r));
      }
      beside.join();
      barrier(communicator);
    });
  }
}

TEST(MessageGather, RefusesWhatIsTooLong) {
  on_ranks(2, [](Communicator& communicator) {
    MessageGather gather(communicator, 0);
    const bool first = communicator.rank() == 0;
    const auto call = [&] { (void)gather.gather(bytes_of(0, first ? 8 : 9), 8); };
    if (first) {
      EXPECT_THAT(testing::error_of(call),
                  ::testing::HasSubstr("rank 1 announces 9 bytes of gradients, 8 are the most"));
      EXPECT_THROW(barrier(communicator), RankLost);
    } else {
      try {
        call();
      } catch (const RankLost&) {  // the other one may have left before it had all
      }
    }
  });
}

}  // namespace
}  // namespace ndtrain
