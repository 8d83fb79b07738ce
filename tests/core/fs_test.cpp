// What every Fs promises (any_fs.h), asked of the real one and of the one in memory; and path
// arithmetic.
#include "framework/core/fs.h"

#include <gtest/gtest.h>

#include "framework/testing/memory_fs.h"
#include "tests/support/any_fs.h"

namespace ndtrain::testing_fs {

std::shared_ptr<Fs> borrowed_real_fs() {
  return {&real_fs(), [](Fs*) {}};
}

INSTANTIATE_TEST_SUITE_P(, AnyFs,
                         ::testing::Values(FsKind{"Memory",
                                                  [] { return std::make_shared<MemoryFs>(); }},
                                           FsKind{"Real", borrowed_real_fs}),
                         name_of_kind);

}  // namespace ndtrain::testing_fs

namespace ndtrain {
namespace {

TEST(Path, JoinPutsOneSlashBetween) {
  EXPECT_EQ(join("a", "b"), "a/b");
  EXPECT_EQ(join("a/", "b"), "a/b");
  EXPECT_EQ(join("/", "b"), "/b");
  EXPECT_EQ(join("", "b"), "b");
}

TEST(Path, AnAbsoluteNameStaysBelowTheDirectory) {
  EXPECT_TRUE(join("a", "/etc/passwd").starts_with("a/"));
}

TEST(Path, ParentAndNameArePartsOfThePath) {
  EXPECT_EQ(parent_of("a/b/c"), "a/b");
  EXPECT_EQ(parent_of("a//b"), "a");
  EXPECT_EQ(parent_of("/a"), "/");
  EXPECT_EQ(parent_of("/"), "/");
  EXPECT_EQ(parent_of("a"), "");
  EXPECT_EQ(parent_of(""), "");
  EXPECT_EQ(name_of_path("a/b.c"), "b.c");
  EXPECT_EQ(name_of_path("b"), "b");
  EXPECT_EQ(name_of_path("a/"), "");
}

TEST(Path, TheExtensionIsLowerCaseAndOfTheNameAlone) {
  EXPECT_EQ(extension_of("x/IMG_1.JPEG"), ".jpeg");
  EXPECT_EQ(extension_of("a.tar.gz"), ".gz");
  EXPECT_EQ(extension_of("v1.2/file"), "");
  EXPECT_EQ(extension_of(".hidden"), "");
  EXPECT_EQ(extension_of("x/.hidden"), "");
  EXPECT_EQ(extension_of("ends."), "");
  EXPECT_EQ(extension_of("a.\xc3\x89"), ".\xc3\x89");  // only ASCII has a case here
}

}  // namespace
}  // namespace ndtrain
