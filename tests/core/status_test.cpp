#include "framework/core/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace ndtrain {
namespace {

TEST(Status, OkDoesNotThrowAndAFailureThrowsItsMessage) {
  EXPECT_TRUE(Status().ok());
  EXPECT_NO_THROW(Status().or_throw());
  const Status full(Code::kNoSpace, "disk full");
  EXPECT_FALSE(full.ok());
  EXPECT_EQ(full.code(), Code::kNoSpace);
  try {
    full.or_throw();
    FAIL() << "did not throw";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "disk full");
  }
}

TEST(Result, HoldsAValueThatCannotBeCopied) {
  Result<std::unique_ptr<int>> r = std::make_unique<int>(7);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(**r, 7);
  EXPECT_EQ(*std::move(r).or_throw(), 7);
}

TEST(Result, HoldsTheReasonWhenThereIsNoValue) {
  const Result<int> r = Status(Code::kCorrupt, "bad checksum");
  EXPECT_FALSE(r.ok());
  EXPECT_EQ(r.status().code(), Code::kCorrupt);
  EXPECT_THROW(Result<int>(r).or_throw(), Error);
}

TEST(Result, CannotBeMadeFromAnOkStatus) { EXPECT_THROW(Result<int>(Status{}), Error); }

}  // namespace
}  // namespace ndtrain
