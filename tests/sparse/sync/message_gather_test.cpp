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

void on_gathering_ranks(int ranks, const std::function<void(Communicator& communicator)>& f) {
  auto transports = memory_transports(ranks);
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      Communicator communicator(std::move(transports[static_cast<size_t>(r)]), {.in_flight = 1});
      f(communicator);
    });
  }
}

std::string numbered_bytes(int rank, size_t size) {
  return std::string(size, static_cast<char>('a' + rank));
}

// While collectives have their turns in another thread.
TEST(MessageGather, GivesAllRanksWhatEachHas) {
  for (const int ranks : {1, 2, 4}) {
    on_gathering_ranks(ranks, [&](Communicator& communicator) {
      std::jthread beside([&] {
        for (int i = 0; i < 20; ++i) barrier(communicator);
      });
      MessageGather gather(communicator, Sites(communicator), 0);
      for (const size_t size : {0, 1, 3, 4, 5, 70'001}) {
        const auto of = [&](int rank) {
          return numbered_bytes(rank, size + static_cast<size_t>(rank));
        };
        const std::vector<std::string> all = gather.gather(of(communicator.rank()), 100'000);
        ASSERT_EQ(std::ssize(all), ranks);
        for (int r = 0; r < ranks; ++r) EXPECT_EQ(all[static_cast<size_t>(r)], of(r));
      }
      beside.join();
      barrier(communicator);
    });
  }
}

// All are begun before any ends, and there is something to tell of how fast they came.
TEST(MessageGather, EndsInTheOrderInWhichItBegan) {
  on_gathering_ranks(3, [&](Communicator& communicator) {
    MessageGather gather(communicator, Sites(communicator), 3);
    const size_t sizes[] = {200'000, 0, 5, 300'000, 1};
    for (int round = 0; round < 3; ++round) {
      for (const size_t size : sizes) {
        gather.begin(numbered_bytes(communicator.rank(), size), 300'000);
      }
      for (const size_t size : sizes) {
        const std::vector<std::string> all = gather.end();
        for (int r = 0; r < 3; ++r) EXPECT_EQ(all[static_cast<size_t>(r)], numbered_bytes(r, size));
      }
    }
    EXPECT_GT(gather.receive_mbps(), 0);
    EXPECT_GT(gather.send_mbps(), 0);
    barrier(communicator);
  });
}

// Of each site one rank's go to the other sites, and come to all ranks there.
TEST(MessageGather, GivesRanksOfSitesWhatEachSiteHas) {
  const std::vector<int> sites = {4, 7, 4, 2, 7, 7};
  const std::vector<int> leaders = {0, 1, 3};
  on_gathering_ranks(6, [&](Communicator& communicator) {
    const Sites own(communicator, sites);
    MessageGather gather(communicator, own, 0);
    const size_t sizes[] = {200'000, 0, 5};
    for (int round = 0; round < 3; ++round) {
      for (const size_t size : sizes) gather.begin(numbered_bytes(own.leader(), size), 200'000);
      for (const size_t size : sizes) {
        const std::vector<std::string> all = gather.end();
        ASSERT_EQ(all.size(), 3U);
        for (size_t i = 0; i < 3; ++i) EXPECT_EQ(all[i], numbered_bytes(leaders[i], size));
      }
    }
    EXPECT_EQ(gather.send_mbps() > 0, own.leads());
    EXPECT_EQ(gather.receive_mbps() > 0, own.leads());
    barrier(communicator);
  });
}

// What others have, passed on by each to the next one, while the next calls are under way.
TEST(MessageGather, ByARingGivesTheSame) {
  const std::vector<int> apart, sites = {4, 7, 4, 2, 7, 9};
  for (const int ranks : {1, 2, 3, 6}) {
    on_gathering_ranks(ranks, [&](Communicator& communicator) {
      const Sites own(communicator, ranks == 6 ? sites : apart);
      MessageGather gather(communicator, own, 1, GatherRoute::kRing);
      const size_t sizes[] = {200'000, 0, 5, 70'001};
      const auto of = [](int rank, size_t size) {
        return numbered_bytes(rank, size + static_cast<size_t>(rank));
      };
      for (int round = 0; round < 3; ++round) {
        for (const size_t size : sizes) gather.begin(of(own.leader(), size), 300'000);
        for (const size_t size : sizes) {
          const std::vector<std::string> all = gather.end();
          ASSERT_EQ(all.size(), own.leaders().size());
          for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], of(own.leaders()[i], size));
        }
      }
      EXPECT_EQ(gather.send_mbps() > 0, own.leads() && own.count() > 1);
      barrier(communicator);
    });
  }
}

TEST(MessageGather, RefusesWhatIsTooLong) {
  on_gathering_ranks(2, [](Communicator& communicator) {
    MessageGather gather(communicator, Sites(communicator), 0);
    const bool first = communicator.rank() == 0;
    const auto call = [&] { (void)gather.gather(numbered_bytes(0, first ? 8 : 9), 8); };
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
