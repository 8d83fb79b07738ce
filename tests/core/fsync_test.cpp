#include "framework/core/fsync.h"

#include <gtest/gtest.h>

#include "framework/core/publish.h"
#include "framework/testing/fsync_throws.h"
#include "tests/support/failing_fsync.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

const auto ended = ::testing::ExitedWithCode(kFsyncFailedStatus);

// Whoever catches whatever.
template <typename F>
void swallow(F f) {
  try {
    f();
  } catch (...) {
  }
}

TEST(FsyncDeathTest, AFailureEndsTheProcessThroughAnyCatch) {
  EXPECT_EXIT(swallow([] { fsync_failed("the labels"); }), ended, "fsync failed.*the labels");
}

TEST(FsyncDeathTest, OfAFileAndOfADirectoryOnARealDiskItIsNamed) {
  const support::TemporaryDirectory root;
  const auto file = real_fs().open(root.at("file"), Fs::Mode::kCreate).or_throw();
  const support::FailingFsync failing;
  EXPECT_EXIT(swallow([&] { file->sync(); }), ended, "/file: .*Input/output error");
  EXPECT_EXIT(swallow([&] { real_fs().sync_directory(root.path()); }), ended,
              root.path() + ": .*Input/output error");
  EXPECT_EXIT(swallow([&] { (void)publish(real_fs(), root.at("x"), "x").ok(); }), ended, "fsync");
  EXPECT_EXIT(swallow([&] { (void)real_fs().make_directories(root.at("a/b")).ok(); }), ended,
              "fsync");
}

TEST(FsyncDeathTest, AHandlerThatReturnsEndsTheProcessToo) {
  const FsyncHandler before = set_fsync_handler([](const std::string&) {});
  EXPECT_EXIT(fsync_failed("the labels"), ended, "the labels");
  set_fsync_handler(before);
}

TEST(FsyncThrowsTest, IsNotCaughtByThoseWhoCatchErrorsAndHoldsWhileItLives) {
  const auto answer = [] {
    try {
      fsync_failed("the labels");
    } catch (const std::exception&) {
    }
  };
  const FsyncHandler none = set_fsync_handler(nullptr);
  {
    const FsyncThrows throws;
    EXPECT_THROW(answer(), FsyncFailed);
  }
  EXPECT_EQ(set_fsync_handler(none), nullptr);
}

}  // namespace
}  // namespace ndtrain
