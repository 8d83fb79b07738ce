#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/clock.h"
#include "framework/testing/memory_fs.h"
#include "ndp/rados/rados_fs.h"

namespace ndtrain::ndp {
namespace {

TEST(RadosAbsent, ABuildWithoutItRefusesItsPathsAndSaysWhatToBuild) {
  const auto fs = with_rados(std::make_unique<MemoryFs>(), system_clock(), {});
  const Status s = fs->info("rados://photos/july").status();
  EXPECT_EQ(s.code(), Code::kUnsupported);
  EXPECT_THAT(s.message(), ::testing::HasSubstr("rados://photos/july"));
  EXPECT_THAT(s.message(), ::testing::HasSubstr("-D NDT_RADOS=ON"));
}

}  // namespace
}  // namespace ndtrain::ndp
