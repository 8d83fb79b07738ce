#include "framework/core/distinct_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ndtrain {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(DistinctNames, ThatAreDistinctStay) {
  std::vector<std::string> names = {"crane", "maillot", ""};
  EXPECT_THAT(make_distinct(names), IsEmpty());
  EXPECT_THAT(names, ElementsAre("crane", "maillot", ""));
}

TEST(DistinctNames, GetANumberFromTheSecondOfANameOnAndItIsSaid) {
  std::vector<std::string> names = {"crane", "maillot", "crane", "x", "maillot", "crane"};
  const std::vector<Renamed> renamed = make_distinct(names);
  EXPECT_THAT(names, ElementsAre("crane", "maillot", "crane (2)", "x", "maillot (2)", "crane (3)"));
  EXPECT_EQ(describe(renamed),
            "some class names occur more than once, so that class 2 is called 'crane (2)', class 4 "
            "is called 'maillot (2)', class 5 is called 'crane (3)'");
  std::vector<std::string> many(20, "x");
  EXPECT_THAT(describe(make_distinct(many)), ::testing::EndsWith("'x (9)', and 11 more likewise"));
}

TEST(DistinctNames, AreNoneThatAnotherHas) {
  std::vector<std::string> names = {"crane",     "crane", "crane (2)",
                                    "crane (3)", "crane", "crane (2)"};
  make_distinct(names);
  EXPECT_THAT(names, ElementsAre("crane", "crane (4)", "crane (2)", "crane (3)", "crane (5)",
                                 "crane (2) (2)"));
}

}  // namespace
}  // namespace ndtrain
