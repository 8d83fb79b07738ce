#include "ndp/photos/photo_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/core/limits.h"
#include "framework/testing/memory_fs.h"
#include "tests/photos/broken_fs.h"
#include "tests/support/files.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

using support::write_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Listing {
  std::vector<std::string> paths;
  std::vector<PhotoProblem> problems;
};

Listing list_all(PhotoSource& source, size_t page) {
  Listing all;
  std::string cursor;
  do {
    Result<PhotoPage> p = source.list(cursor, page);
    p.status().or_throw();
    EXPECT_LE(p->photos.size(), page);
    for (const PhotoRef& r : p->photos) all.paths.push_back(r.path);
    all.problems.insert(all.problems.end(), p->problems.begin(), p->problems.end());
    cursor = p->next;
  } while (!cursor.empty());
  return all;
}

void fill(Fs& fs) {
  for (const char* path : {"r/b.jpg", "r/a/2.png", "r/a/1.JPEG", "r/a/deep/er/x.heic", "r/a.jpg",
                           "r/notes.txt", "r/.hidden.jpg", "r/.git/y.jpg", "r/a/labels.csv"}) {
    write_file(fs, path, "x");
  }
}

TEST(DirectorySource, ListsPhotosOnceInByteOrderForAnyPageSize) {
  MemoryFs fs;
  fill(fs);
  for (size_t page = 1; page <= 7; ++page) {
    DirectorySource source(fs, "r");
    EXPECT_THAT(list_all(source, page).paths,
                ElementsAre("a/1.JPEG", "a/2.png", "a/deep/er/x.heic", "a.jpg", "b.jpg"));
  }
}

TEST(DirectorySource, ACursorWorksInAnotherSourceAndWhenItsPhotoIsGone) {
  MemoryFs fs;
  fill(fs);
  DirectorySource first(fs, "r"), second(fs, "r"), third(fs, "r");
  const Result<PhotoPage> page = first.list("", 3);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->next, "a/deep/er/x.heic");
  const Result<PhotoPage> rest = second.list(page->next, 9);
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(rest->photos.size(), 2u);
  EXPECT_EQ(rest->next, "");
  fs.remove("r/a/deep/er/x.heic").or_throw();
  fs.remove("r/a/deep/er").or_throw();
  const Result<PhotoPage> without = third.list(page->next, 9);
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(without->photos, rest->photos);
}

TEST(DirectorySource, TellsSizeTimeAndInode) {
  MemoryFs fs;
  fill(fs);
  DirectorySource source(fs, "r");
  const FileInfo info = fs.info("r/b.jpg").or_throw();
  const PhotoPage page = source.list("", 99).or_throw();
  EXPECT_EQ(page.photos.back(), (PhotoRef{"b.jpg", info.size, info.mtime_ns, info.inode}));
}

TEST(DirectorySource, AnUnreadableDirectoryIsAProblemAndAnUnreadableRootAnError) {
  MemoryFs memory;
  fill(memory);
  testing::BrokenFs fs(memory);
  fs.broken = {"r/a"};
  DirectorySource source(fs, "r");
  const Listing all = list_all(source, 2);
  EXPECT_THAT(all.paths, ElementsAre("a.jpg", "b.jpg"));
  ASSERT_EQ(all.problems.size(), 1u);
  EXPECT_EQ(all.problems[0].path, "a");
  EXPECT_THAT(all.problems[0].message, HasSubstr("permission denied"));
  fs.broken = {"r"};
  EXPECT_EQ(source.list("", 9).status().code(), Code::kIo);
  DirectorySource nowhere(memory, "nowhere");
  EXPECT_EQ(nowhere.list("", 9).status().code(), Code::kNotFound);
}

TEST(DirectorySource, LinksAreFollowedButNotInCircles) {
  namespace stdfs = std::filesystem;
  const support::TemporaryDirectory directory;
  const stdfs::path root = directory.path();
  write_file(real_fs(), (root / "photos/a/1.jpg").string(), "x");
  write_file(real_fs(), (root / "elsewhere/2.jpg").string(), "x");
  stdfs::create_directory_symlink(root / "photos", root / "photos/a/back");
  stdfs::create_directory_symlink(root / "elsewhere", root / "photos/linked");
  stdfs::create_symlink(root / "nothing", root / "photos/dangling.jpg");
  DirectorySource source(real_fs(), (root / "photos").string());
  const Listing all = list_all(source, 1);
  EXPECT_THAT(all.paths, ElementsAre("a/1.jpg", "linked/2.jpg"));
  ASSERT_EQ(all.problems.size(), 1u);
  EXPECT_EQ(all.problems[0].path, "a/back");
}

TEST(DirectorySource, PhotosBeyondTheSizeLimitAreNotRead) {
  const support::TemporaryDirectory root;
  write_file(real_fs(), root.at("x.jpg"), "x");
  DirectorySource source(real_fs(), root.path());
  for (int64_t over : {-1, 0, 1}) {
    std::filesystem::resize_file(root.at("x.jpg"), limits::kPhotoFile + over);  // sparse
    EXPECT_EQ(source.open("x.jpg").status().code(), over > 0 ? Code::kTooLarge : Code::kOk);
  }
}

}  // namespace
}  // namespace ndtrain::ndp
