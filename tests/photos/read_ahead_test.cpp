#include "ndp/photos/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

namespace ndtrain::ndp {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

std::vector<size_t> first_items(size_t n) {
  std::vector<size_t> items(n);
  std::iota(items.begin(), items.end(), size_t{100});
  return items;
}

PhotoReadAhead::Items small(const std::vector<size_t>& items, PhotoReadAhead::Open open) {
  return {.in_order = items, .open = std::move(open), .bytes = [](size_t) { return int64_t{1}; }};
}

thread_local nanoseconds time_of_thread{0};

// Each thread's time goes on as it says.
class ThreadsClock final : public Clock {
 public:
  nanoseconds monotonic() const override { return time_of_thread; }
  int64_t unix_seconds() const override { return 0; }
  void sleep(nanoseconds d) override { time_of_thread += d; }
};

// Requests that last until they are let go.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    const int number = entered_++;
    most_ = std::max(most_, entered_ - done_);
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ || number < let_go_; });
    ++done_;
    changed_.notify_all();
  }
  void await_under_way(int n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return entered_ - done_ == n; });
  }
  // All that are under way.
  void let_go() {
    std::unique_lock lock(mutex_);
    let_go_ = entered_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return done_ >= let_go_; });
    most_ = entered_ - done_;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  int most() {  // since they were let go
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int entered_ = 0, let_go_ = 0, done_ = 0, most_ = 0;
  bool open_ = false;
};

TEST(ReadAheadPace, AsManyAreAskedForAsAreUsedMeanwhileTwiceOver) {
  ReadAheadPace pace;
  EXPECT_EQ(pace.at_once(), ReadAheadPace::kFirst);
  pace.fetched(milliseconds(50));
  EXPECT_EQ(pace.at_once(), ReadAheadPace::kFirst);
  pace.used(milliseconds(10));
  EXPECT_EQ(pace.at_once(), 10);
  for (int i = 0; i < 100; ++i) pace.fetched(milliseconds(100));
  EXPECT_EQ(pace.at_once(), 20);
  for (int i = 0; i < 100; ++i) pace.fetched(milliseconds(2));
  EXPECT_EQ(pace.at_once(), ReadAheadPace::kLeast);
  for (int i = 0; i < 100; ++i) pace.fetched(std::chrono::seconds(9));
  EXPECT_EQ(pace.at_once(), ReadAheadPace::kMost);
}

// As the engine takes them: none for a while, then all of a batch.
TEST(ReadAheadPace, BatchesAreTakenForWhatTheyAreOnAverage) {
  ReadAheadPace pace;
  pace.fetched(milliseconds(50));
  for (int photo = 0; photo < 1024; ++photo) {
    pace.used(photo % 32 == 0 ? milliseconds(320) : milliseconds(0));
    if (photo < 128) continue;
    EXPECT_GE(pace.at_once(), 7) << photo;
    EXPECT_LE(pace.at_once(), 13) << photo;
  }
}

TEST(PhotoReadAhead, HowManyAreUnderWayFollowsTheLatency) {
  ThreadsClock clock;
  Gate gate;
  std::atomic<int> latency_ms = 40;
  const std::vector<size_t> items = first_items(1000);
  size_t next = 0;
  PhotoReadAhead ahead(small(items,
                             [&](size_t) -> Result<std::string> {
                               gate.pass();
                               clock.sleep(milliseconds(latency_ms));
                               return std::string();
                             }),
                       clock);
  ReadAheadPace expected;
  const auto round = [&](int under_way) {
    gate.await_under_way(under_way);
    gate.let_go();
    // As many again, before a photo is used and it is known how many are worth it.
    if (next == 0) gate.await_under_way(under_way);
    for (int i = 0; i < under_way; ++i) expected.fetched(milliseconds(latency_ms));
    for (int i = 0; i < under_way; ++i) {
      if (next > 0) expected.used(milliseconds(10));
      EXPECT_TRUE(ahead.take(items[next++]).ok());
      clock.sleep(milliseconds(10));
    }
  };
  round(ReadAheadPace::kFirst);
  round(ReadAheadPace::kFirst);
  EXPECT_EQ(expected.at_once(), 8);
  gate.await_under_way(8);
  EXPECT_EQ(gate.most(), 8);
  latency_ms = 200;
  round(8);
  EXPECT_GE(expected.at_once(), 25);
  gate.await_under_way(expected.at_once());
  gate.open();
}

TEST(PhotoReadAhead, EachItemIsOpenedOnceAndSeveralAtATime) {
  std::mutex mutex;
  std::multiset<size_t> opened;
  Gate gate;
  const std::vector<size_t> items = first_items(300);
  PhotoReadAhead ahead(small(items, [&](size_t item) -> Result<std::string> {
    {
      const std::lock_guard lock(mutex);
      opened.insert(item);
    }
    gate.pass();
    if (item == 105) return Status(Code::kIo, "105 is bad");
    return std::to_string(item);
  }));
  gate.await_under_way(ReadAheadPace::kFirst);
  gate.open();
  for (const size_t item : items) {
    const Result<std::string> got = ahead.take(item);
    if (item == 105) {
      EXPECT_EQ(got.status().message(), "105 is bad");
    } else {
      EXPECT_EQ(*got, std::to_string(item));
    }
  }
  EXPECT_EQ(opened, std::multiset<size_t>(items.begin(), items.end()));
}

TEST(PhotoReadAhead, SeveralThreadsMayTakeThem) {
  std::mutex mutex;
  std::multiset<size_t> opened;
  const std::vector<size_t> items = first_items(2000);
  PhotoReadAhead ahead(small(items, [&](size_t item) -> Result<std::string> {
    const std::lock_guard lock(mutex);
    opened.insert(item);
    return std::to_string(item);
  }));
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i; (i = next++) < items.size();) {
        EXPECT_EQ(*ahead.take(items[i]), std::to_string(items[i]));
      }
    });
  }
  threads.clear();
  for (const size_t item : items) EXPECT_GE(opened.count(item), 1U);
}

TEST(PhotoReadAhead, ItemsMayBeLeftOutAndAskedForAgain) {
  const std::vector<size_t> items = first_items(500);
  PhotoReadAhead ahead(
      small(items, [](size_t item) -> Result<std::string> { return std::to_string(item); }));
  for (const size_t item : {100, 420, 120, 421, 421, 599, 100}) {
    EXPECT_EQ(*ahead.take(item), std::to_string(item));
  }
}

TEST(PhotoReadAhead, WhatIsNotTakenIsNotWaitedForForEver) {
  std::atomic<int> opened{0};
  const std::vector<size_t> items = first_items(1000);
  {
    PhotoReadAhead ahead(small(items, [&](size_t) -> Result<std::string> {
      ++opened;
      return std::string();
    }));
    (void)ahead.take(100);
  }
  EXPECT_LE(opened, 2 + static_cast<int>(PhotoReadAhead::kAhead));
}

TEST(PhotoReadAhead, LargePhotosAreBoundedByTheirBytes) {
  std::atomic<int64_t> held{0}, most{0};
  const std::vector<size_t> items = first_items(60);
  constexpr int64_t kLarge = PhotoReadAhead::kBytes / 4;
  PhotoReadAhead ahead({.in_order = items,
                        .open = [&](size_t) -> Result<std::string> {
                          const int64_t now = held += kLarge;
                          for (int64_t m = most; m < now && !most.compare_exchange_weak(m, now);) {
                          }
                          return std::string();
                        },
                        .bytes = [&](size_t) { return kLarge; }});
  for (const size_t item : items) {
    EXPECT_TRUE(ahead.take(item).ok());
    held -= kLarge;
  }
  EXPECT_LE(most, PhotoReadAhead::kBytes + 2 * kLarge);  // the taken one, and one read by its taker
  // One that is larger than all is allowed to be is read all the same.
  PhotoReadAhead larger({.in_order = items,
                         .open = [](size_t) -> Result<std::string> { return std::string("x"); },
                         .bytes = [](size_t) { return 2 * PhotoReadAhead::kBytes; }});
  for (const size_t item : items) EXPECT_EQ(*larger.take(item), "x");
}

TEST(PhotoReadAhead, OnceTheSourceIsAwayItIsNotAskedAnyMore) {
  std::atomic<int> opened{0};
  const std::vector<size_t> items = first_items(1000);
  PhotoReadAhead ahead(small(items, [&](size_t) -> Result<std::string> {
    ++opened;
    return Status(Code::kUnavailable, "away");
  }));
  for (const size_t item : items) EXPECT_EQ(ahead.take(item).status().message(), "away");
  EXPECT_LE(opened, ReadAheadPace::kMost + 1);
}

TEST(PhotoReadAhead, AnExceptionIsAnErrorOfTheItem) {
  const std::vector<size_t> items = first_items(1);
  PhotoReadAhead ahead(small(items, [](size_t) -> Result<std::string> { throw Error("boom"); }));
  EXPECT_EQ(ahead.take(100).status().message(), "boom");
}

}  // namespace
}  // namespace ndtrain::ndp
