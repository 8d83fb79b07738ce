#include "framework/core/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace ndtrain {
namespace {

TEST(DescriptorLimit, IsRaisedToWhatTheSystemAllows) {
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit small = {.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  raise_descriptor_limit();
  rlimit now = {};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(now.rlim_cur, before.rlim_max);
  EXPECT_EQ(now.rlim_max, before.rlim_max);
}

}  // namespace
}  // namespace ndtrain
