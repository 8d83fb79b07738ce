#include "framework/train/name_pattern.h"

#include <gmock/gmock.h>

#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(NamePattern, AStarIsAnythingOrNothing) {
  for (const char* pattern : {"conv1.weight", "*", "conv*", "*weight", "c*1*t", "conv1.weight*"}) {
    EXPECT_TRUE(fits_pattern(pattern, "conv1.weight")) << pattern;
  }
  for (const char* pattern : {"", "conv1", "weight", "*bias", "conv1.w*w", "*x*", "conv2*"}) {
    EXPECT_FALSE(fits_pattern(pattern, "conv1.weight")) << pattern;
  }
}

TEST(NamePattern, ANumberStandsBehindTheLastEqualsSign) {
  EXPECT_EQ(numbered_pattern("a=b=0.5"), (std::pair<std::string, double>("a=b", 0.5)));
  EXPECT_EQ(numbered_pattern("*=-2"), (std::pair<std::string, double>("*", -2)));
  for (const char* wrong : {"", "a", "=1", "a=", "a=x", "a=1x", "a= 1"}) {
    EXPECT_EQ(numbered_pattern(wrong), std::nullopt) << wrong;
  }
}

TEST(NamePattern, TheNamesThatAreMostLikeOneThatThereIsNotAreSaid) {
  std::vector<std::string> names;
  for (int i = 1; i <= 9; ++i) names.push_back("layer" + std::to_string(i) + ".weight");
  names.emplace_back("fc.weight");
  const std::string why = error_of([&] {
    (void)numbers_of("rate", names, std::vector{std::pair(std::string("fc.wieght"), 2.0)});
  });
  EXPECT_THAT(why, HasSubstr("rate of 'fc.wieght': no parameter that is trained has such a name; "
                             "there are fc.weight, layer1.weight"));
  EXPECT_THAT(why, HasSubstr(" and 2 more"));
  EXPECT_THAT(why, Not(HasSubstr("layer9")));
}

}  // namespace
}  // namespace ndtrain
