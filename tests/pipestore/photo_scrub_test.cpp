// Files of photos that a disk has changed: a bit is another, and size, time and inode are as
// before.
#include "ndp/pipestore/photo_scrub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "framework/core/clock.h"
#include "framework/core/publish.h"
#include "framework/core/thread_pool.h"
#include "framework/runtime/backend.h"
#include "ndp/photos/upload_path.h"
#include "tests/photos/photo_factory.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kSecond = std::chrono::seconds(1);

class Scrub : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(at("state")); }
  static std::string picture(int i) { return testing::jpeg_of(testing::test_pattern(16 + i, 16)); }
  // In the photo directory, as `name`.
  Digest put(const std::string& name, int i) {
    std::filesystem::create_directories(parent_of(at("photos/" + name)));
    publish(real_fs(), at("photos/" + name), picture(i)).or_throw();
    return sha256(picture(i));
  }
  // Its path below the state.
  std::string upload(int i) {
    const std::string path = upload_path_of(sha256(picture(i)), picture(i));
    std::filesystem::create_directories(parent_of(at("state/" + path)));
    publish(real_fs(), at("state/" + path), picture(i)).or_throw();
    return path;
  }
  static void rot(const std::string& file) {
    const auto time = std::filesystem::last_write_time(file);
    {
      std::fstream f(file, std::ios::binary | std::ios::in | std::ios::out);
      f.seekg(100);
      const int byte = f.get();
      f.seekp(100);
      f.put(static_cast<char>(byte ^ 4));
    }
    std::filesystem::last_write_time(file, time);
  }
  std::vector<PhotoChange> scan() {
    std::vector<PhotoChange> told;
    StorePhotos photos(real_fs(), at("photos"), at("state"));
    catalogue()
        ->scan(photos, shared_threads(),
               {.on_change = [&](const PhotoChange& c) { told.push_back(c); }})
        .or_throw();
    return told;
  }
  std::unique_ptr<Catalogue> catalogue() {
    std::filesystem::create_directories(at("photos"));
    return Catalogue::open(real_fs(), at("catalogue")).or_throw();
  }
  std::vector<std::string> damaged() {
    std::vector<std::string> paths;
    for (const DamagedPhoto& d : catalogue()->damaged().or_throw()) paths.push_back(d.path);
    return paths;
  }
  std::unique_ptr<PhotoScrub> scrub(PhotoScrub::Time period) {
    return std::make_unique<PhotoScrub>(
        PhotoScrub::Setting{.photos = at("photos"),
                            .state = at("state"),
                            .period = period,
                            .put_back =
                                [this](const Digest& photo, const std::string& file) {
                                  restored_.push_back(photo);
                                  return publish(real_fs(),
                                                 at("state/" + upload_path_of(photo, file)), file);
                                }},
        real_fs(), clock_, catalogue());
  }
  // Until so many photos have been read.
  void run(PhotoScrub& s, int64_t photos) {
    for (int i = 0; i < 10'000 && s.counts().photos < photos; ++i) {
      const auto next = s.step();
      clock_.advance(std::max(next - clock_.monotonic(), PhotoScrub::Time(0)));
    }
    ASSERT_EQ(s.counts().photos, photos);
  }
  std::string at(const std::string& name) const { return directory_.at(name); }

  support::TemporaryDirectory directory_;
  ManualClock clock_;
  std::vector<Digest> restored_;
};

TEST_F(Scrub, QuarantinesWhatTheDiskHasChangedAndTakesItForNoOtherPhoto) {
  const Digest good = put("a/1.jpg", 1), rotten = put("a/2.jpg", 2);
  (void)scan();
  rot(at("photos/a/2.jpg"));
  const auto s = scrub(10 * kSecond);
  run(*s, 2);
  EXPECT_EQ(s->counts().damaged, 1);
  const auto db = catalogue();
  EXPECT_THAT(db->damaged().or_throw(), ElementsAre(DamagedPhoto{"a/2.jpg", rotten}));
  EXPECT_THAT(db->with_digest(rotten).or_throw(), IsEmpty()) << "nothing has its name any more";
  EXPECT_EQ(db->with_digest(good).or_throw().size(), 1U);
  EXPECT_EQ(db->find("a/2.jpg").or_throw()->state, PhotoState::kQuarantined);
  EXPECT_THAT(scan(), IsEmpty()) << "it is no new photo";
  std::filesystem::last_write_time(at("photos/a/2.jpg"),
                                   std::filesystem::file_time_type::clock::now());
  (void)scan();
  EXPECT_EQ(db->find("a/2.jpg").or_throw()->state, PhotoState::kQuarantined)
      << "nor after somebody has touched it";
}

TEST_F(Scrub, OfAPhotoThatIsPutBackNothingIsSaidAnyMore) {
  const Digest photo = put("1.jpg", 1);
  (void)scan();
  rot(at("photos/1.jpg"));
  const auto s = scrub(10 * kSecond);
  run(*s, 1);
  EXPECT_EQ(s->counts().damaged, 1);
  (void)put("1.jpg", 1);
  (void)scan();
  EXPECT_EQ(catalogue()->with_digest(photo).or_throw().size(), 1U);
  EXPECT_THAT(damaged(), IsEmpty());
  clock_.advance(60 * kSecond);
  (void)s->step();
  EXPECT_EQ(s->counts().damaged, 0);
}

TEST_F(Scrub, LeavesAFileThatSomebodyWroteToTheNextScan) {
  (void)put("1.jpg", 1);
  (void)put("2.jpg", 2);
  (void)scan();
  (void)put("1.jpg", 3);
  const auto s = scrub(10 * kSecond);
  run(*s, 1);
  EXPECT_EQ(s->counts().damaged, 0);
  const auto told = scan();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].kind, PhotoChange::Kind::kChanged);
}

TEST_F(Scrub, ReadsEachPhotoOnceInItsTimeAndUploadsFirst) {
  for (int i = 0; i < 6; ++i) (void)put("a" + std::to_string(i) + ".jpg", i);
  for (int i = 0; i < 6; ++i) (void)put("z" + std::to_string(i) + ".jpg", 50 + i);
  std::vector<std::string> uploads;
  for (int i = 20; i < 24; ++i) uploads.push_back(upload(i));
  (void)scan();
  rot(at("photos/a0.jpg"));
  rot(at("state/" + uploads[2]));
  const auto s = scrub(160 * kSecond);
  const auto before = clock_.monotonic();
  run(*s, 4);
  EXPECT_THAT(damaged(), ElementsAre(uploads[2]));
  run(*s, 16);
  EXPECT_THAT(damaged(), ElementsAre("a0.jpg", uploads[2]));
  const auto took = clock_.monotonic() - before;
  EXPECT_GE(took, 150 * kSecond);
  EXPECT_LE(took, 190 * kSecond);
  EXPECT_GT(s->counts().bytes, 0);
}

TEST_F(Scrub, GoesOnWhereItWasWhenItIsStartedAgain) {
  for (int i = 0; i < 10; ++i) (void)put(std::to_string(i) + ".jpg", i);
  (void)scan();
  {
    const auto s = scrub(1000 * kSecond);
    run(*s, 6);  // 100 s each: what was read is kept every minute
  }
  rot(at("photos/0.jpg"));
  rot(at("photos/9.jpg"));
  const auto s = scrub(1000 * kSecond);
  run(*s, 4);
  EXPECT_THAT(damaged(), ElementsAre("9.jpg")) << "0.jpg is for the next round";
  run(*s, 5);
  EXPECT_EQ(s->counts().rounds, 1);
  EXPECT_THAT(damaged(), ElementsAre("0.jpg", "9.jpg"));
}

TEST_F(Scrub, BeginsAnewWhereItCannotTellHowFarItWas) {
  (void)put("1.jpg", 1);
  (void)scan();
  run(*scrub(100 * kSecond), 1);
  publish(real_fs(), at("state/scrub.json"), "{\"begun\": 1}").or_throw();
  run(*scrub(100 * kSecond), 1);
}

TEST_F(Scrub, PutsAnUploadRightFromAnotherFileOfTheStore) {
  const Digest photo = put("copy.jpg", 1);
  const std::string path = upload(1);
  (void)scan();
  rot(at("state/" + path));
  const auto s = scrub(10 * kSecond);
  run(*s, 1);
  EXPECT_THAT(restored_, ElementsAre(photo));
  EXPECT_EQ(s->counts().restored, 1);
  EXPECT_EQ(s->counts().damaged, 0);
  EXPECT_EQ(real_fs().read(at("state/" + path)).or_throw(), picture(1));
}

TEST_F(Scrub, ReadsASuspectAtOnceAndNothingElseWhereItIsOff) {
  (void)put("1.jpg", 1);
  (void)put("2.jpg", 2);
  (void)scan();
  rot(at("photos/1.jpg"));
  rot(at("photos/2.jpg"));
  const auto s = scrub(PhotoScrub::Time(0));
  s->suspect("2.jpg");
  s->suspect("2.jpg");
  s->suspect("no.jpg");
  for (int i = 0; i < 10; ++i) (void)s->step();
  EXPECT_EQ(s->counts().photos, 1);
  EXPECT_THAT(damaged(), ElementsAre("2.jpg"));
}

TEST_F(Scrub, OfADamagedPhotoThatIsDeletedTheCatalogueKeepsNoTrace) {
  const Digest photo = put("1.jpg", 1);
  (void)scan();
  rot(at("photos/1.jpg"));
  const auto s = scrub(10 * kSecond);
  run(*s, 1);
  const auto db = catalogue();
  db->remove(photo).or_throw();
  EXPECT_THAT(db->damaged().or_throw(), IsEmpty());
  EXPECT_FALSE(db->find("1.jpg").or_throw());
}

TEST_F(Scrub, AScanTakesNoUploadForAnotherPhotoThanItIsCalledAfter) {
  const std::string path = upload(1);
  rot(at("state/" + path));
  (void)scan();
  EXPECT_EQ(catalogue()->find(path).or_throw()->state, PhotoState::kQuarantined);
  EXPECT_THAT(catalogue()->damaged().or_throw(),
              ElementsAre(DamagedPhoto{path, sha256(picture(1))}));
}

}  // namespace
}  // namespace ndtrain::ndp
