#include "cli/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace ndtrain::cli {
namespace {

TEST(Suggest, TheNearestWordThatMayBeMeant) {
  const std::vector<std::string> verbs = {"train", "eval", "model inspect"};
  EXPECT_EQ(nearest("trian", verbs), "train");
  EXPECT_EQ(nearest("model inspekt", verbs), "model inspect");
  EXPECT_EQ(nearest("frobnicate", verbs), "");
}

}  // namespace
}  // namespace ndtrain::cli
