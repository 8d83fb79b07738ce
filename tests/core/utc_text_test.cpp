#include "framework/core/utc_text.h"

#include <gtest/gtest.h>

namespace ndtrain {
namespace {

TEST(UtcText, ComesBackAsItWas) {
  EXPECT_EQ(utc_text(0), "1970-01-01 00:00:00 UTC");
  EXPECT_EQ(utc_text(1'795'282'800), "2026-11-21 17:40:00 UTC");
  for (const int64_t t : {int64_t{-1}, int64_t{951'782'399}, int64_t{4'102'444'800}}) {
    EXPECT_EQ(from_utc_text(utc_text(t)), t);
  }
}

TEST(UtcText, WhatIsNoneIsRefused) {
  for (const char* text : {"", "0", "2026-11-21", "2026-11-21 17:40:00", "2026-13-21 17:40:00 UTC",
                           "2026-11-21 17:40:00 UTC "}) {
    EXPECT_FALSE(from_utc_text(text)) << text;
  }
}

}  // namespace
}  // namespace ndtrain
