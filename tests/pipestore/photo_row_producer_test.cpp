#include "ndp/pipestore/photo_row_producer.h"

#include <gtest/gtest.h>

#include "tests/support/failing_fsync.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

// What it kept for the next time may or may not be on the disk.
TEST(PhotoRowProducerDeathTest, AnFsyncThatFailsWhenItEndsEndsTheProcess) {
  const auto end = [] {
    const support::TemporaryDirectory directory;
    real_fs().make_directories(directory.at("photos")).or_throw();
    Devices devices("cpu");
    auto producer = std::make_unique<PhotoRowProducer>(
        PhotoRowConfig{.photos = directory.at("photos"), .cache = directory.at("cache")}, devices,
        real_fs(), system_clock());
    const support::FailingFsync failing;
    producer.reset();
  };
  EXPECT_DEATH(end(), "FsyncFailed");
}

}  // namespace
}  // namespace ndtrain::ndp
