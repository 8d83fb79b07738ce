#include "ndp/pipestore/photo_row_maker.h"

#include <gtest/gtest.h>

#include "framework/core/fsync.h"
#include "tests/support/failing_fsync.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

// What it kept for the next time may or may not be on the disk.
TEST(PhotoRowMakerDeathTest, AnFsyncThatFailsWhenItEndsEndsTheProcess) {
  const auto end = [] {
    const support::TemporaryDirectory directory;
    real_fs().make_directories(directory.at("photos")).or_throw();
    Devices devices("cpu");
    auto maker = std::make_unique<PhotoRowMaker>(
        PhotoRowConfig{.photos = directory.at("photos"), .cache = directory.at("cache")}, devices,
        real_fs(), system_clock());
    const support::FailingFsync failing;
    maker.reset();
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(kFsyncFailedStatus), "fsync");
}

}  // namespace
}  // namespace ndtrain
