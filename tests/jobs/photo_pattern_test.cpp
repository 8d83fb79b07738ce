#include "ndp/jobs/photo_pattern.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "framework/core/publish.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PhotoPattern : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"a/1.jpg", "a/2.png", "a/b/1.jpg", "a/.c/1.jpg", "d/1.jpg", "d/x.txt"}) {
      real_fs().make_directories(parent_of(d_.at(name))).or_throw();
      publish(real_fs(), d_.at(name), "x").or_throw();
    }
  }
  std::vector<std::string> matching(const std::string& pattern) const {
    std::vector<std::string> paths = matching_paths(real_fs(), d_.at(pattern));
    for (std::string& p : paths) p.erase(0, d_.path().size() + 1);
    return paths;
  }

  support::TemporaryDirectory d_;
};

TEST_F(PhotoPattern, OneNameAtATime) {
  EXPECT_THAT(matching("a/*.jpg"), ElementsAre("a/1.jpg"));
  EXPECT_THAT(matching("*/[12].*"), ElementsAre("a/1.jpg", "a/2.png", "d/1.jpg"));
  EXPECT_THAT(matching("?/1.jpg"), ElementsAre("a/1.jpg", "d/1.jpg"));
  EXPECT_THAT(matching("*"), ElementsAre("a", "d"));
  EXPECT_THAT(matching("a/*/1.jpg"), ElementsAre("a/b/1.jpg")) << "not what begins with a dot";
  EXPECT_THAT(matching("a/*.gif"), IsEmpty());
  EXPECT_THAT(matching("nowhere/*"), IsEmpty());
}

TEST_F(PhotoPattern, TwoStarsAreAnyNumberOfDirectories) {
  EXPECT_THAT(matching("**/1.jpg"), ElementsAre("a/1.jpg", "a/b/1.jpg", "d/1.jpg"));
  EXPECT_THAT(matching("a/**/*.jpg"), ElementsAre("a/1.jpg", "a/b/1.jpg"));
  EXPECT_THAT(matching("a/**"), ElementsAre("a/1.jpg", "a/2.png", "a/b/1.jpg"));
  EXPECT_THAT(matching("**/b/**/1.jpg"), ElementsAre("a/b/1.jpg"));
  std::filesystem::create_directory_symlink(d_.at("a"), d_.at("a/b/up"));
  EXPECT_THAT(matching("**/1.jpg"), ElementsAre("a/1.jpg", "a/b/1.jpg", "d/1.jpg"));
}

}  // namespace
}  // namespace ndtrain::ndp
