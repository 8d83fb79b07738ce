// What only a real file system does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "framework/core/fs.h"
#include "framework/core/publish.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

class RealFs : public ::testing::Test {
 protected:
  support::TemporaryDirectory directory;
  const std::string root = directory.path();
};

TEST_F(RealFs, AFullDeviceIsNoSpace) {
  if (!real_fs().exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full here";
  auto file = real_fs().open("/dev/full", Fs::Mode::kAppend).or_throw();
  const Status s = file->append(std::as_bytes(std::span("x")));
  EXPECT_EQ(s.code(), Code::kNoSpace);
  EXPECT_THAT(s.message(), HasSubstr("/dev/full"));
}

TEST_F(RealFs, AFifoDoesNotHangUs) {
  const std::string path = join(root, "fifo");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(real_fs().read(path).status().code(), Code::kUnsupported);
  EXPECT_TRUE(real_fs().info(path).ok());
}

TEST_F(RealFs, APrivateFileIsItsOwnersOnlyEvenOverAPublicOne) {
  const std::string path = join(root, "key");
  const mode_t before = ::umask(0);
  publish(real_fs(), path, "public").or_throw();
  publish(real_fs(), path, "private", Fs::Mode::kCreatePrivate).or_throw();
  ::umask(before);
  struct stat s;
  ASSERT_EQ(::stat(path.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
  EXPECT_EQ(*real_fs().read(path), "private");
}

// At the size limit the kernel writes a part, then refuses: what it took is there, the rest is
// told.
TEST_F(RealFs, AWriteThatIsCutShortGoesOnUntilTheError) {
  const std::string path = join(root, "limited");
  auto file = real_fs().open(path, Fs::Mode::kCreate).or_throw();
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = 100, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string text(250, 'x');
  const Status s = file->append(std::as_bytes(std::span(text)));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(s.code(), Code::kTooLarge);
  EXPECT_EQ(*file->size(), 100);
}

TEST_F(RealFs, InfoFollowsLinksAndABrokenLinkIsNotFound) {
  const std::string link = join(root, "link");
  ASSERT_EQ(::symlink("target", link.c_str()), 0);
  EXPECT_EQ(real_fs().info(link).status().code(), Code::kNotFound);
  real_fs().make_directories(join(root, "target")).or_throw();
  EXPECT_TRUE(real_fs().info(link)->is_directory);
}

TEST_F(RealFs, ANameThatIsTooLongIsRefused) {
  EXPECT_EQ(real_fs().open(join(root, std::string(256, 'n')), Fs::Mode::kCreate).status().code(),
            Code::kTooLarge);
}

TEST_F(RealFs, LargeFilesComeBackWhole) {
  std::string text(3 << 20, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 ^ i >> 9);
  const std::string path = join(root, "large");
  auto file = real_fs().open(path, Fs::Mode::kCreate).or_throw();
  file->append(std::as_bytes(std::span(text))).or_throw();
  EXPECT_TRUE(real_fs().read(path).or_throw() == text);
}

TEST_F(RealFs, WhatItCannotTellIsNoAnswer) {
  EXPECT_FALSE(real_fs().exists(join(root, "absent")));
  try {
    (void)real_fs().exists(join(root, std::string(300, 'a')));
    FAIL() << "took it for absent";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("File name too long"));
  }
}

}  // namespace
}  // namespace ndtrain
