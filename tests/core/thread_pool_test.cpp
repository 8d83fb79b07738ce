#include "framework/core/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

// Whether each of [0, n) was visited once, in ranges of at most `grain`.
void expect_cover(ThreadPool& pool, int64_t n, int64_t grain) {
  std::vector<std::atomic<int>> visits(static_cast<size_t>(n));
  std::atomic<int64_t> longest{0};
  pool.parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    ASSERT_LT(begin, end);
    for (int64_t seen = longest;
         seen < end - begin && !longest.compare_exchange_weak(seen, end - begin);) {
    }
    for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
  });
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(visits[static_cast<size_t>(i)], 1) << i << " of " << n;
  EXPECT_LE(longest, grain);
}

class ThreadPools : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPools, CoverEachIndexOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (int64_t n : {0, 1, 2, 7, 64, 1000}) {
    for (int64_t grain : {1, 3, 64, 5000}) expect_cover(pool, n, grain);
  }
}

TEST_P(ThreadPools, LargeCountsDoNotOverflow) {
  ThreadPool pool(GetParam());
  std::atomic<int64_t> last{0};
  std::atomic<int> ranges{0};
  pool.parallel_for(INT64_MAX, INT64_MAX / 2, [&](int64_t, int64_t end) {
    ++ranges;
    for (int64_t seen = last; seen < end && !last.compare_exchange_weak(seen, end);) {
    }
  });
  EXPECT_EQ(last, INT64_MAX);
  EXPECT_EQ(ranges, 3);
}

TEST_P(ThreadPools, RunNestedLoopsWhereTheyAre) {
  ThreadPool pool(GetParam());
  std::atomic<int> inner{0};
  std::atomic<bool> moved{false};
  pool.parallel_for(16, 1, [&](int64_t, int64_t) {
    const auto here = std::this_thread::get_id();
    pool.parallel_for(32, 2, [&](int64_t begin, int64_t end) {
      if (std::this_thread::get_id() != here) moved = true;
      inner += static_cast<int>(end - begin);
      pool.parallel_for(2, 1, [](int64_t, int64_t) {});
    });
  });
  EXPECT_EQ(inner, 16 * 32);
  EXPECT_FALSE(moved);
}

TEST_P(ThreadPools, RethrowAndStayUsable) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 50; ++round) {
    EXPECT_THROW(pool.parallel_for(100, 1,
                                   [](int64_t begin, int64_t) {
                                     if (begin >= 20) throw std::out_of_range("body");
                                   }),
                 std::out_of_range);
    EXPECT_THROW(pool.parallel_for(8, 1,
                                   [&](int64_t, int64_t) {
                                     pool.parallel_for(8, 1, [](int64_t, int64_t) -> void {
                                       throw std::length_error("inner");
                                     });
                                   }),
                 std::length_error);
    expect_cover(pool, 100, 3);
  }
}

TEST_P(ThreadPools, ServeSeveralIssuersAtOnce) {
  ThreadPool pool(GetParam());
  std::vector<std::thread> issuers;
  std::vector<int64_t> sums(6, 0);
  for (size_t t = 0; t < sums.size(); ++t) {
    issuers.emplace_back([&, t] {
      for (int round = 0; round < 200; ++round) {
        std::atomic<int64_t> sum{0};
        pool.parallel_for(50, 1 + round % 7, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) sum += i;
        });
        sums[t] += sum;
      }
    });
  }
  for (std::thread& t : issuers) t.join();
  for (int64_t s : sums) EXPECT_EQ(s, 200 * 49 * 50 / 2);
}

TEST_P(ThreadPools, UseOtherPoolsFromWithinALoop) {
  ThreadPool outer(GetParam());
  ThreadPool inner(2);
  std::atomic<int> n{0};
  outer.parallel_for(8, 1, [&](int64_t, int64_t) {
    inner.parallel_for(
        8, 1, [&](int64_t, int64_t) { outer.parallel_for(4, 1, [&](int64_t, int64_t) { ++n; }); });
  });
  EXPECT_EQ(n, 8 * 8 * 4);
}

TEST_P(ThreadPools, SeePlainWritesOfTheIssuerAndItTheirs) {
  ThreadPool pool(GetParam());
  std::vector<int> in(1000), out(1000);
  for (int round = 1; round <= 100; ++round) {
    std::fill(in.begin(), in.end(), round);
    pool.parallel_for(1000, 10, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) out[i] = in[i];
    });
    ASSERT_EQ(std::accumulate(out.begin(), out.end(), 0), 1000 * round);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPools, ::testing::Values(1, 2, 3, 8));

TEST(ThreadPool, RefusesWhatCannotBe) {
  EXPECT_THROW(ThreadPool(0), Error);
  EXPECT_THROW(ThreadPool(-3), Error);
  ThreadPool pool(2);
  EXPECT_THROW(pool.parallel_for(1, 0, [](int64_t, int64_t) {}), Error);
  EXPECT_THROW(pool.parallel_for(-1, 1, [](int64_t, int64_t) {}), Error);
}

// Every body waits for all the others, so this ends only if they run at the same time.
TEST(ThreadPool, AllThreadsWorkOnOneLoop) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  for (bool asleep : {false, true}) {
    if (asleep) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> arrived{0};
    std::mutex mutex;
    std::set<std::thread::id> ids;
    pool.parallel_for(kThreads, 1, [&](int64_t, int64_t) {
      {
        const std::lock_guard lock(mutex);
        ids.insert(std::this_thread::get_id());
      }
      ++arrived;
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (arrived < kThreads && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
      }
    });
    EXPECT_EQ(ids.size(), size_t{kThreads});
    EXPECT_EQ(ids.count(std::this_thread::get_id()), 1u);
  }
}

TEST(ThreadPool, ALoopOfOneRangeLeavesThePoolToLoopsInside) {
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  pool.parallel_for(1, 1, [&](int64_t, int64_t) {
    pool.parallel_for(2, 1, [&](int64_t, int64_t) {
      ++arrived;
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (arrived < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      EXPECT_EQ(arrived, 2);
    });
  });
}

TEST(ThreadPool, ComesAndGoesWithoutWork) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(1 + i % 5);
}

TEST(ThreadPool, ManyShortLoopsEnd) {
  ThreadPool pool(2);
  int64_t total = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::atomic<int> n{0};
    pool.parallel_for(2, 1, [&](int64_t, int64_t) { n.fetch_add(1, std::memory_order_relaxed); });
    total += n;
  }
  EXPECT_EQ(total, 40'000);
}

}  // namespace
}  // namespace ndtrain
