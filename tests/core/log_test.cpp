#include "framework/core/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/core/error.h"
#include "framework/core/fs.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Log : public ::testing::Test {
 protected:
  ~Log() override {
    log::set_level(log::Level::kInfo);
    log::to_file("");
  }
};

TEST_F(Log, WritesPlainLinesToStderrAndMarksWarnings) {
  ::testing::internal::CaptureStderr();
  log::info("{} photos", 7);
  log::warn("slow");
  log::error("gone: {}", "{}");
  log::debug("unseen");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "7 photos\nwarning: slow\nerror: gone: {}\n");
}

TEST_F(Log, TheLevelDecidesWhatIsSeen) {
  ::testing::internal::CaptureStderr();
  log::set_level(log::Level::kError);
  log::warn("no");
  log::error("yes");
  log::set_level(log::Level::kOff);
  log::error("no");
  log::set_level(log::Level::kDebug);
  log::debug("also");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "error: yes\nalso\n");
}

TEST_F(Log, TheFileHasTimesAndLevelsAndEndsWhenToldTo) {
  const support::TemporaryDirectory directory;
  const std::string path = directory.at("log.txt");
  ::testing::internal::CaptureStderr();
  log::to_file(path);
  log::warn("first");
  log::to_file("");
  log::warn("second");
  ::testing::internal::GetCapturedStderr();
  const std::string text = real_fs().read(path).or_throw();
  EXPECT_THAT(text, ContainsRegex("^[0-9]{4}-[0-9]{2}-[0-9]{2}T.* warning +first\n$"));
  EXPECT_THAT(text, Not(HasSubstr("second")));
}

TEST_F(Log, ControlCharactersAreWrittenOutWhoeverTheyAreFrom) {
  const support::TemporaryDirectory directory;
  const std::string path = directory.at("log.txt");
  ::testing::internal::CaptureStderr();
  log::to_file(path);
  log::warn("store {} has left: {}", "evil", "bye\nerror: the disk is on fire\x1b[2J");
  log::to_file("");
  const std::string line = "store evil has left: bye\\nerror: the disk is on fire\\x1b[2J\n";
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warning: " + line);
  const std::string text = real_fs().read(path).or_throw();
  EXPECT_TRUE(text.ends_with(line)) << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
}

TEST_F(Log, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_THROW(log::to_file("/proc/no/such/log.txt"), Error);
}

}  // namespace
}  // namespace ndtrain
