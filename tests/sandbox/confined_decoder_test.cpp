// What a decoder that was taken over can still do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/photos/photo_factory.h"
#include "tests/sandbox/hostile_pool.h"

namespace ndtrain::ndp {
namespace {

using ::testing::AnyOf;
using testing::decoded_by;
using testing::ended;
using ::testing::HasSubstr;
using testing::hostile_config;
using testing::is_stopped;

// A kernel without, or a build of a sanitizer, says so.
#define NDT_SKIP_WITHOUT_FILTER(pool)                                             \
  if ((pool).missing().find("the filter of system calls") != std::string::npos) { \
    GTEST_SKIP() << "the sandbox lacks here: " << (pool).missing();               \
  }

// As it was asked for; a sanitizer's build has none anyway.
auto no_filter() {
  return AnyOf(HasSubstr("the filter of system calls (not wanted)"),
               HasSubstr("the filter of system calls (this build is a sanitizer's)"));
}

TEST(ConfinedDecoder, IsEndedWhereItAsksForWhatNoDecoderNeeds) {
  DecoderPool pool(hostile_config());
  NDT_SKIP_WITHOUT_FILTER(pool)
  int64_t stopped = 0;
  for (const char* act :
       {"!read a file", "!write a file", "!list a directory", "!make a socket",
        "!make a local socket", "!fork", "!vfork", "!exec", "!kill its owner", "!trace its owner",
        "!run memory", "!raise its limits", "!read what it has not"}) {
    SCOPED_TRACE(act);
    const Status s = decoded_by(pool, act).status();
    EXPECT_TRUE(is_stopped(s)) << s.message();
    EXPECT_THAT(s.message(), HasSubstr("SIGSYS"));
    EXPECT_GT(ended(pool, WorkerEnd::kForbidden), stopped);
    stopped = ended(pool, WorkerEnd::kForbidden);
    EXPECT_TRUE(decoded_by(pool, testing::jpeg_of(testing::test_pattern(40, 30))).ok());
  }
  EXPECT_FALSE(std::filesystem::exists("/tmp/ndtrain-hostile"));
}

TEST(ConfinedDecoder, MayBeginThreadsAndIsNotHeardInTheLog) {
  DecoderPool pool(hostile_config());
  EXPECT_TRUE(decoded_by(pool, "!begin a thread").ok());
  NDT_SKIP_WITHOUT_FILTER(pool)
  const Status s = decoded_by(pool, "!write to the log").status();
  EXPECT_EQ(s.code(), Code::kUnsupported) << s.message();
  EXPECT_EQ(pool.counts().ended, DecoderPool::Counts().ended);
}

TEST(ConfinedDecoder, ReachesNoFileWithoutTheFilterEither) {
  DecoderPool::Config config = hostile_config();
  config.worker.limits.filter = false;
  DecoderPool pool(config);
  EXPECT_THAT(pool.missing(), no_filter());
  if (pool.missing().find("Landlock") != std::string::npos) {
    GTEST_SKIP() << "the sandbox lacks here: " << pool.missing();
  }
  for (const char* act : {"!read a file", "!write a file", "!list a directory", "!exec"}) {
    const Status s = decoded_by(pool, act).status();
    EXPECT_EQ(s.code(), Code::kUnsupported) << act;
    EXPECT_EQ(s.message(), "Permission denied") << act;
  }
}

// The other half of the test above: nothing else keeps it from a file.
TEST(ConfinedDecoder, SaysWhatItLacks) {
  DecoderPool::Config config = hostile_config();
  config.worker.limits.filter = config.worker.limits.landlock = false;
  DecoderPool pool(config);
  EXPECT_THAT(pool.missing(), HasSubstr("Landlock (not wanted)"));
  EXPECT_THAT(pool.missing(), no_filter());
  EXPECT_TRUE(decoded_by(pool, "!read a file").ok());
}

TEST(ConfinedDecoder, HasAsMuchMemoryAsItIsGiven) {
  DecoderPool pool(hostile_config());
  if (pool.missing().find("the limit of memory") != std::string::npos) {
    GTEST_SKIP() << "the sandbox lacks here: " << pool.missing();
  }
  const Status s = decoded_by(pool, "!take 1 GiB").status();
  EXPECT_EQ(s.code(), Code::kTooLarge);
  EXPECT_THAT(s.message(), HasSubstr("more memory than a decode worker may have"));
  EXPECT_TRUE(decoded_by(pool, testing::jpeg_of(testing::test_pattern(40, 30))).ok());
  EXPECT_EQ(pool.counts().ended, DecoderPool::Counts().ended);
}

TEST(ConfinedDecoder, IsGivenNothingOfItsOwners) {
  const int open = dup(0);
  ASSERT_EQ(setenv("NDTRAIN_TEST_SECRET", "s3cret", 1), 0);
  DecoderPool pool(hostile_config());
  unsetenv("NDTRAIN_TEST_SECRET");
  ::close(open);
  const Status s = decoded_by(pool, "!what it was given").status();
  EXPECT_EQ(s.code(), Code::kUnsupported);
  EXPECT_EQ(s.message().find("descriptor"), std::string::npos) << s.message();
  EXPECT_EQ(s.message().find("s3cret"), std::string::npos) << s.message();
  EXPECT_EQ(s.message().find("PATH=/"), s.message().find("LD_LIBRARY_PATH=/") == std::string::npos
                                            ? std::string::npos
                                            : s.message().find("LD_LIBRARY_PATH=/") + 11)
      << s.message();
}

}  // namespace
}  // namespace ndtrain::ndp
