#include "framework/comm/buffer_pool.h"

#include <gtest/gtest.h>

namespace ndtrain::comm_tests {
namespace {

TEST(BufferPool, WhatWasGivenBackLastIsUsedNextWhereItIsLongEnough) {
  BufferPool pool(1000);
  std::byte *first = nullptr, *last = nullptr;
  {
    const auto a = pool.take(100), b = pool.take(200);
    EXPECT_EQ(pool.kept(), 0u);
    first = b.get();
    last = a.get();
  }  // b, then a
  EXPECT_EQ(pool.kept(), 300u);
  const auto c = pool.take(50), d = pool.take(150), e = pool.take(1);
  EXPECT_EQ(c.get(), last);
  EXPECT_EQ(d.get(), first);
  EXPECT_EQ(pool.kept(), 0u);
  EXPECT_NE(e.get(), nullptr);
}

TEST(BufferPool, AShortBufferIsNotTakenForALongOne) {
  BufferPool pool(1000);
  pool.take(100).reset();
  const auto longer = pool.take(101);
  longer[100] = std::byte{1};
  EXPECT_EQ(pool.kept(), 100u);
}

TEST(BufferPool, KeepsNoMoreThanItMayAndLetsTheOldestGo) {
  BufferPool pool(300);
  auto a = pool.take(100), b = pool.take(200);
  a.reset();
  b.reset();
  EXPECT_EQ(pool.kept(), 300u);
  auto c = pool.take(301);
  c.reset();
  EXPECT_EQ(pool.kept(), 0u);
  a = pool.take(100), b = pool.take(201);
  const std::byte* const last = b.get();
  a.reset();
  b.reset();
  EXPECT_EQ(pool.kept(), 201u);
  EXPECT_EQ(pool.take(10).get(), last);
}

}  // namespace
}  // namespace ndtrain::comm_tests
