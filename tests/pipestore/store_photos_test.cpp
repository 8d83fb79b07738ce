#include "ndp/pipestore/store_photos.h"

#include <gmock/gmock.h>

#include "framework/core/publish.h"
#include "framework/testing/memory_fs.h"
#include "ndp/photos/upload_path.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StorePhotosTest : public ::testing::Test {
 protected:
  void put(const std::string& file) {
    fs_.make_directories(parent_of(file)).or_throw();
    publish(fs_, file, file).or_throw();
  }
  static std::vector<std::string> all(PhotoSource& source, size_t at_once) {
    std::vector<std::string> paths;
    std::string cursor;
    do {
      const PhotoPage page = source.list(cursor, at_once).or_throw();
      EXPECT_LE(page.photos.size(), at_once);
      for (const PhotoRef& p : page.photos) paths.push_back(p.path);
      cursor = page.next;
    } while (!cursor.empty());
    return paths;
  }

  MemoryFs fs_;
  const std::string one_ = upload_path(sha256("1"), ".jpg"),
                    two_ = upload_path(sha256("2"), ".png");
};

TEST_F(StorePhotosTest, AreThoseOfTheDirectoryAndThenTheUploadsInPagesOfAnySize) {
  for (const char* name : {"p/a/1.jpg", "p/a/2.jpg", "p/b/1.jpg"}) put(name);
  StorePhotos without(fs_, "p", "");
  EXPECT_THAT(all(without, 2), ElementsAre("a/1.jpg", "a/2.jpg", "b/1.jpg"));
  StorePhotos photos(fs_, "p", "s");
  EXPECT_THAT(all(photos, 2), ElementsAre("a/1.jpg", "a/2.jpg", "b/1.jpg"));
  put("s/uploads/log");
  put("s/" + one_);
  put("s/" + two_);
  const std::string& first = std::min(one_, two_);
  const std::string& last = std::max(one_, two_);
  for (const size_t at_once : {1, 2, 3, 4, 5, 6}) {
    EXPECT_THAT(all(photos, at_once), ElementsAre("a/1.jpg", "a/2.jpg", "b/1.jpg", first, last));
  }
  EXPECT_EQ(photos.left_by_older(), 0);
  EXPECT_EQ(photos.open(one_).or_throw(), "s/" + one_);
  EXPECT_EQ(photos.open("a/1.jpg").or_throw(), "p/a/1.jpg");
}

TEST_F(StorePhotosTest, ThatAnOlderVersionTookInAreWhereItLeftThem) {
  put("p/a/1.jpg");
  put("p/" + one_);
  put("p/" + two_);
  put("s/" + two_);  // somebody moves them
  StorePhotos photos(fs_, "p", "s");
  EXPECT_THAT(all(photos, 1), ElementsAre("a/1.jpg", one_, two_));
  EXPECT_EQ(photos.left_by_older(), 1);
  EXPECT_EQ(photos.open(one_).or_throw(), "p/" + one_);
  EXPECT_EQ(photos.open(two_).or_throw(), "s/" + two_);
  EXPECT_FALSE(photos.is_upload(one_));
  EXPECT_TRUE(photos.is_upload(two_));
}

TEST_F(StorePhotosTest, AFolderOfUploadsDeeperDownIsSomebodysOwn) {
  put("p/a/" + one_);
  put("s/a/" + one_);
  StorePhotos photos(fs_, "p", "s");
  EXPECT_EQ(photos.open("a/" + one_).or_throw(), "p/a/" + one_);
}

TEST_F(StorePhotosTest, SayHowFoldersBecomeTruth) {
  put("p/2023/1.jpg");
  EXPECT_EQ(class_folders_hint(fs_, "p"), "");
  put("p/2024/1.jpg");
  EXPECT_THAT(class_folders_hint(fs_, "p"),
              ::testing::AllOf(HasSubstr("(2023, 2024)"), HasSubstr("--labels folder")));
  put("p/2025/1.jpg");
  put("p/2026/1.jpg");
  EXPECT_THAT(class_folders_hint(fs_, "p"), HasSubstr("(2023, 2024, 2025, …)"));
}

TEST(StoreDirectories, AStateAmongThePhotosIsRefused) {
  const support::TemporaryDirectory d;
  for (const char* name : {"photos", "photos/state", "photos/.state/s", "state", "photos-2"}) {
    real_fs().make_directories(d.at(name)).or_throw();
  }
  EXPECT_NO_THROW(check_apart(d.at("state"), d.at("photos")));
  EXPECT_NO_THROW(check_apart(d.at("photos-2"), d.at("photos")));
  EXPECT_NO_THROW(check_apart(d.at("photos/.state/s"), d.at("photos")));
  EXPECT_NO_THROW(check_apart(d.path(), d.at("photos")));
  EXPECT_THROW(check_apart(d.at("photos"), d.at("photos")), Error);
  try {
    check_apart(d.at("photos/../photos/state"), d.at("photos"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::AllOf(HasSubstr("photos/state"), HasSubstr("--state")));
  }
}

}  // namespace
}  // namespace ndtrain::ndp
