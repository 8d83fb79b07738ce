#include "ndp/rados/content_mark.h"

#include <gtest/gtest.h>

namespace ndtrain::ndp {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

ObjectFacts object_of(uint64_t version, int64_t seconds) {
  return {.size = 5, .mtime_ns = seconds * kSecond, .version = version, .content = version};
}

TEST(ContentMark, SaysWhichVersionTheBytesAreOfWhileTheTimeIsTheSame) {
  ObjectAttributes marked = {{kContentMark, content_mark(object_of(7, 100))}};
  EXPECT_EQ(content_version(object_of(8, 100), marked), 7U);
  EXPECT_EQ(content_version(object_of(20, 100), marked), 7U);
  EXPECT_EQ(content_version(object_of(8, 101), marked), 8U) << "written since";
  EXPECT_EQ(content_version(object_of(8, 100), {}), 8U);
  ObjectFacts twice = object_of(9, 100);
  twice.content = content_version(twice, marked);
  marked[kContentMark] = content_mark(twice);
  EXPECT_EQ(content_version(object_of(10, 100), marked), 7U);
}

TEST(ContentMark, OneThatIsNoneSaysNothing) {
  for (const char* const mark : {"", "7", "7 ", " 100", "7 100 ", "7,100", "x 100", "-7 100",
                                 "9 100", "7 99999999999999999999"}) {
    EXPECT_EQ(content_version(object_of(8, 100), {{kContentMark, mark}}), 8U) << mark;
  }
}

TEST(ContentMark, WhatWasWrittenJustNowIsNotMarked) {
  EXPECT_FALSE(is_settled(object_of(7, 100), 99));
  EXPECT_FALSE(is_settled(object_of(7, 100), 104));
  EXPECT_TRUE(is_settled(object_of(7, 100), 105));
}

}  // namespace
}  // namespace ndtrain::ndp
