#include "ndp/s3/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

namespace ndtrain::ndp {
namespace {

std::vector<size_t> first_items(size_t n) {
  std::vector<size_t> items(n);
  std::iota(items.begin(), items.end(), size_t{100});
  return items;
}

TEST(PhotoReadAhead, EachItemIsOpenedOnceAndSeveralAtATime) {
  std::mutex mutex;
  std::multiset<size_t> opened;
  std::atomic<int> under_way{0}, most{0};
  const std::vector<size_t> items = first_items(300);
  PhotoReadAhead ahead(items, [&](size_t item) -> Result<std::string> {
    const int now = ++under_way;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    --under_way;
    const std::lock_guard lock(mutex);
    opened.insert(item);
    if (item == 105) return Status(Code::kIo, "105 is bad");
    return std::to_string(item);
  });
  for (const size_t item : items) {
    const Result<std::string> got = ahead.take(item);
    if (item == 105) {
      EXPECT_EQ(got.status().message(), "105 is bad");
    } else {
      EXPECT_EQ(*got, std::to_string(item));
    }
  }
  EXPECT_EQ(opened, std::multiset<size_t>(items.begin(), items.end()));
  EXPECT_GT(most, 1);
  EXPECT_LE(most, PhotoReadAhead::kAtOnce);
}

TEST(PhotoReadAhead, ItemsMayBeLeftOutAndAskedForAgain) {
  const std::vector<size_t> items = first_items(200);
  PhotoReadAhead ahead(items,
                       [](size_t item) -> Result<std::string> { return std::to_string(item); });
  EXPECT_EQ(*ahead.take(100), "100");
  EXPECT_EQ(*ahead.take(250), "250");  // further away than what is read ahead
  EXPECT_EQ(*ahead.take(120), "120");
  EXPECT_EQ(*ahead.take(251), "251");
}

TEST(PhotoReadAhead, WhatIsNotTakenIsNotWaitedForForEver) {
  std::atomic<int> opened{0};
  const std::vector<size_t> items = first_items(1000);
  {
    PhotoReadAhead ahead(items, [&](size_t) -> Result<std::string> {
      ++opened;
      return std::string();
    });
    (void)ahead.take(100);
  }
  EXPECT_LE(opened, 1 + static_cast<int>(PhotoReadAhead::kAhead));
}

TEST(PhotoReadAhead, AnExceptionIsAnErrorOfTheItem) {
  const std::vector<size_t> items = first_items(1);
  PhotoReadAhead ahead(items, [](size_t) -> Result<std::string> { throw Error("boom"); });
  EXPECT_EQ(ahead.take(100).status().message(), "boom");
}

}  // namespace
}  // namespace ndtrain::ndp
