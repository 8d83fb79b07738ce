#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "ndp/s3/s3_fs.h"

namespace ndtrain::ndp {
namespace {

TEST(S3Absent, ABuildWithoutS3RefusesItsPathsAndSaysWhatToBuild) {
  const auto fs = with_s3(real_fs(), system_clock(), [] { return Result(S3Settings{}); });
  const Status s = fs->info("s3://photos/july").status();
  EXPECT_EQ(s.code(), Code::kUnsupported);
  EXPECT_THAT(s.message(), ::testing::HasSubstr("s3://photos/july"));
  EXPECT_THAT(s.message(), ::testing::HasSubstr("-D NDT_S3=ON"));
  EXPECT_TRUE(fs->info("/").ok());
}

}  // namespace
}  // namespace ndtrain::ndp
