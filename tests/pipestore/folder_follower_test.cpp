// The photo directory is followed: when it is looked at, and what an inventory makes of it.
#include "ndp/pipestore/folder_follower.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/photos/upload_path.h"
#include "ndp/pipestore/store_trash.h"
#include "ndp/wire/digests.h"
#include "tests/photos/photo_factory.h"
#include "tests/support/files.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

namespace files = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using support::write_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class FolderFollowerTest : public ::testing::Test {
 protected:
  void begin(FolderFollower::Time rescan = seconds(600)) {
    follower_ = std::make_unique<FolderFollower>(
        FolderFollower::Ports{.clock = clock_,
                              .look = [this](const DirectoryChanges& c) -> Result<FolderLook> {
                                looks_.push_back(c);
                                if (!answer_.ok()) return answer_.status();
                                return *answer_;
                              },
                              .count = [this] { ++counted_; }},
        FolderFollower::Options{.rescan = rescan});
    pass(milliseconds(0));
    ASSERT_EQ(looks_.size(), 1U);
    EXPECT_TRUE(looks_[0].all) << "what came while nobody was here";
    looks_.clear();
  }
  // Ticks when it asks for it, for so long.
  void pass(FolderFollower::Time time) {
    const auto end = clock_.monotonic() + time;
    for (;;) {
      follower_->tick();
      const auto next = std::max(follower_->next(), clock_.monotonic() + milliseconds(1));
      if (next > end) break;
      clock_.advance(next - clock_.monotonic());
    }
    clock_.advance(end - clock_.monotonic());
  }
  void closed(const std::string& path) { follower_->changed({.files = {path}}); }

  ManualClock clock_;
  std::unique_ptr<FolderFollower> follower_;
  Result<FolderLook> answer_ = FolderLook();
  std::vector<DirectoryChanges> looks_;
  int counted_ = 0;
};

TEST_F(FolderFollowerTest, LooksOnceItHasBeenQuietForAMoment) {
  begin();
  for (int i = 0; i < 5; ++i) {
    closed("a.jpg");
    pass(milliseconds(200));
  }
  EXPECT_THAT(looks_, IsEmpty());
  pass(milliseconds(101));
  ASSERT_EQ(looks_.size(), 1U);
  EXPECT_THAT(looks_[0].files, ElementsAre("a.jpg"));
  EXPECT_FALSE(looks_[0].all);
  pass(seconds(100));
  EXPECT_EQ(looks_.size(), 1U);
}

TEST_F(FolderFollowerTest, DoesNotWaitForTheEndOfABurstAndSaysItInOneLine) {
  begin();
  answer_ = FolderLook{.found = 10, .changed = true};
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2000; ++i) {
    closed(std::to_string(i) + ".jpg");
    pass(milliseconds(5));
  }
  pass(seconds(1));
  const std::string said = ::testing::internal::GetCapturedStderr();
  size_t photos = 0;
  for (const DirectoryChanges& c : looks_) photos += c.files.size();
  EXPECT_EQ(photos, 2000U);
  EXPECT_GE(looks_.size(), 4U);
  EXPECT_LE(looks_.size(), 8U) << "some hundreds each";
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  EXPECT_THAT(said, HasSubstr(std::to_string(10 * looks_.size()) + " new, to be labelled"));
  EXPECT_EQ(counted_, static_cast<int>(looks_.size()));
}

TEST_F(FolderFollowerTest, CountsWhenItIsAskedTo) {
  begin();
  const int before = counted_;
  follower_->count_soon();
  follower_->count_soon();
  pass(seconds(1));
  EXPECT_EQ(counted_, before + 1);
  EXPECT_THAT(looks_, IsEmpty());
}

TEST_F(FolderFollowerTest, LooksAtAllWhenTheWatchLostSomethingAndNowAndThen) {
  begin();
  follower_->changed({.all = true});
  pass(seconds(1));
  ASSERT_EQ(looks_.size(), 1U);
  EXPECT_TRUE(looks_[0].all);
  pass(seconds(1300));
  EXPECT_EQ(looks_.size(), 3U);
  looks_.clear();
  begin(seconds(0));
  pass(seconds(100'000));
  EXPECT_THAT(looks_, IsEmpty());
}

TEST_F(FolderFollowerTest, LooksAgainWhereALookFailedOrAFileIsBeingWritten) {
  begin();
  answer_ = Status(Code::kNoSpace, "full");
  closed("a.jpg");
  pass(seconds(5));
  EXPECT_EQ(looks_.size(), 1U);
  answer_ = FolderLook{.unfinished = {"b.jpg"}};
  pass(seconds(9));
  ASSERT_GE(looks_.size(), 3U);
  EXPECT_THAT(looks_[1].files, ElementsAre("a.jpg"));
  EXPECT_THAT(looks_[2].files, IsEmpty());
  EXPECT_THAT(looks_[2].places, ElementsAre("b.jpg")) << "by its time, not because it is finished";
}

// An inventory over a real directory.
class FolderLooks : public ::testing::Test {
 protected:
  FolderLooks() {
    for (int i = 0; i < 3; ++i) put("old/" + std::to_string(i) + ".jpg", i);
    log_ = UploadLog::open(real_fs(), at("log")).or_throw();
    open();
    EXPECT_EQ(look_at_all().found, 0) << "what was there first is what jobs are for";
  }
  void open(uint32_t shard = 0, uint32_t shards = 1) {
    inventory_.reset();
    config_ = {.photos = at("photos"),
               .state = at("state"),
               .cache = at("cache"),
               .shard = shard,
               .shards = shards,
               .uploads = log_.get(),
               .trash = trash_,
               .forget =
                   [this](std::span<const Digest> photos) {
                     forgotten_.insert(forgotten_.end(), photos.begin(), photos.end());
                     return Status();
                   },
               .found =
                   [this](std::span<const FoundPhoto> found) {
                     if (!takes_.ok()) return takes_;
                     for (const FoundPhoto& f : found) {
                       (f.is_new ? new_ : again_).push_back(f.path);
                     }
                     return Status();
                   }};
    inventory_ = std::make_unique<PhotoInventory>(config_, real_fs());
  }
  std::string at(const std::string& name) const { return root_.at(name); }
  static std::string photo(int i) { return testing::jpeg_of(testing::test_pattern(20 + i, 24)); }
  // As of long ago, unless it is being written.
  void put(const std::string& path, int i, bool now = false) { put_bytes(path, photo(i), now); }
  void put_bytes(const std::string& path, const std::string& bytes, bool now = false) {
    write_file(real_fs(), at("photos/" + path), bytes);
    if (!now) files::last_write_time(at("photos/" + path), some_time_ago_ += milliseconds(1));
  }
  FolderLook look(const DirectoryChanges& changes) {
    new_.clear();
    again_.clear();
    FolderLook look =
        inventory_->follow(changes, system_clock(), [this] { return stopping_; }).or_throw();
    inventory_->count();
    return look;
  }
  FolderLook look_at(const std::string& path) { return look({.files = {path}}); }
  FolderLook look_at_all() { return look({.all = true}); }

  support::TemporaryDirectory root_;
  files::file_time_type some_time_ago_ =
      files::file_time_type::clock::now() - std::chrono::hours(9);
  std::unique_ptr<UploadLog> log_;
  const StoreTrash* trash_ = nullptr;
  PhotoRowConfig config_;
  std::unique_ptr<PhotoInventory> inventory_;
  std::vector<std::string> new_, again_;
  std::vector<Digest> forgotten_;
  Status takes_;
  bool stopping_ = false;
};

TEST_F(FolderLooks, TakeNothingForNewThatWasThereFirstThoughItWasJustWritten) {
  config_.cache = at("another");
  inventory_ = std::make_unique<PhotoInventory>(config_, real_fs());
  put("just.jpg", 10, /*now=*/true);
  EXPECT_THAT(look_at_all().unfinished, IsEmpty());
  (void)look_at_all();
  EXPECT_EQ(look_at("just.jpg").found, 0);
  EXPECT_THAT(new_, IsEmpty());
  EXPECT_EQ(inventory_->size(), 4U);
}

TEST_F(FolderLooks, FindNewPhotosAndCountThem) {
  EXPECT_EQ(inventory_->size(), 3U);
  put("new.jpg", 10);
  put("new/11.jpg", 11);
  put("new/12.jpg", 12);
  put("new/copy.jpg", 0);
  const FolderLook found = look({.files = {"new.jpg"}, .places = {"new"}});
  EXPECT_EQ(found.found, 3);
  EXPECT_THAT(new_, UnorderedElementsAre("new.jpg", "new/11.jpg", "new/12.jpg"));
  EXPECT_THAT(again_, ElementsAre("new/copy.jpg"));
  EXPECT_EQ(inventory_->size(), 6U);
  EXPECT_EQ(look_at_all().found, 0);
  EXPECT_EQ(inventory_->scan().or_throw().photos.size(), 6U);
}

TEST_F(FolderLooks, TakeABurstAtOnceAndWhatCameWhileNobodyWasHereAtTheStart) {
  std::set<std::string> burst;
  for (int i = 0; i < 2000; ++i) {
    const std::string path = "b/" + std::to_string(i) + ".jpg";
    put_bytes(path, testing::jpeg_of(testing::test_pattern(100 + i % 50, 100 + i / 50)));
    burst.insert(path);
  }
  EXPECT_EQ(look({.files = burst}).found, 2000);
  EXPECT_EQ(new_.size(), 2000U);
  put("while/away.jpg", 99);
  open();
  EXPECT_EQ(look_at_all().found, 1);
  EXPECT_THAT(new_, ElementsAre("while/away.jpg"));
}

TEST_F(FolderLooks, AreMadeByJobsTooSoThatNothingIsTakenFromThem) {
  put("new.jpg", 10);
  EXPECT_EQ(inventory_->scan().or_throw().photos.size(), 4U);
  EXPECT_THAT(new_, ElementsAre("new.jpg"));
  EXPECT_EQ(look_at("new.jpg").found, 0);
}

TEST_F(FolderLooks, FollowWhatIsMovedAndRemoved) {
  files::rename(at("photos/old"), at("photos/new"));
  EXPECT_EQ(look({.places = {"old", "new"}}).moved, 3);
  EXPECT_THAT(new_, IsEmpty());
  EXPECT_THAT(again_, UnorderedElementsAre("new/0.jpg", "new/1.jpg", "new/2.jpg"));
  EXPECT_EQ(inventory_->size(), 3U);
  files::remove(at("photos/new/1.jpg"));
  EXPECT_EQ(look_at("new/1.jpg").gone, 1);
  EXPECT_EQ(inventory_->size(), 2U);
  put("new/1.jpg", 1);
  EXPECT_EQ(look_at("new/1.jpg").found, 0) << "its label is in the history";
  EXPECT_EQ(inventory_->size(), 3U);
}

TEST_F(FolderLooks, CountWhatIsUploadedDeletedAndInTheTrash) {
  StoreTrash trash(real_fs(), at("trash.bin"));
  trash_ = &trash;
  open();
  const auto say = [&](int i, bool removed) {
    wire::Upload line;
    line.set_digest(bytes_of(sha256(photo(i))));
    line.set_path(upload_path(sha256(photo(i)), ".jpg"));
    line.set_removed(removed);
    log_->commit({line}).or_throw();
  };
  for (int i : {10, 11}) {
    write_file(real_fs(), at("state/" + upload_path(sha256(photo(i)), ".jpg")), photo(i));
    say(i, false);
  }
  EXPECT_EQ(inventory_->size(), 5U) << "at once";
  inventory_->count();
  EXPECT_EQ(inventory_->size(), 5U) << "though no scan has seen them";
  trash.change(std::vector{sha256(photo(0)), sha256(photo(10))}, {}, 1).or_throw();
  inventory_->count();
  EXPECT_EQ(inventory_->size(), 3U);
  say(11, true);
  EXPECT_EQ(inventory_->size(), 2U);
  inventory_->count();
  EXPECT_EQ(inventory_->size(), 2U) << "its file is still there";
  trash.change({}, std::vector{sha256(photo(0)), sha256(photo(10))}, 2).or_throw();
  inventory_->count();
  EXPECT_EQ(inventory_->size(), 4U);
  EXPECT_EQ(inventory_->scan().or_throw().photos.size(), 4U);
  EXPECT_EQ(inventory_->size(), 4U);
}

TEST_F(FolderLooks, DoNotTakeAMountThatIsAwayForARemovalOfAll) {
  files::rename(at("photos"), at("mounted"));
  const auto fails = [&] {
    return inventory_->follow({.all = true}, system_clock(), [] { return false; }).status();
  };
  EXPECT_EQ(fails().code(), Code::kNotFound);
  files::create_directories(at("photos"));
  EXPECT_THAT(fails().message(), HasSubstr("all 3 photos are gone from"));
  EXPECT_THAT(inventory_->scan().status().message(), HasSubstr("is it mounted?"));
  files::remove(at("photos"));
  files::rename(at("mounted"), at("photos"));
  EXPECT_FALSE(look_at_all().changed);
  EXPECT_EQ(inventory_->size(), 3U);
}

TEST_F(FolderLooks, WaitForWhatIsBeingWrittenAndQuarantineWhatIsBad) {
  const std::string whole = photo(10);
  put_bytes("new/a.jpg", whole.substr(0, whole.size() / 2), /*now=*/true);
  const FolderLook half = look({.places = {"new"}});
  EXPECT_THAT(half.unfinished, ElementsAre("new/a.jpg"));
  EXPECT_FALSE(half.changed);
  put_bytes("new/a.jpg", whole, /*now=*/true);
  EXPECT_EQ(look_at("new/a.jpg").found, 1) << "it was said to be finished";
  put_bytes("bad.jpg", "no photo");
  put_bytes("notes.txt", "nor this");
  const FolderLook bad = look({.files = {"bad.jpg", "notes.txt"}});
  EXPECT_EQ(bad.found, 0);
  EXPECT_EQ(bad.unreadable, 1);
  EXPECT_THAT(new_, IsEmpty());
  put("bad.jpg", 11);
  EXPECT_EQ(look_at("bad.jpg").found, 1) << "once it is put right";
}

TEST_F(FolderLooks, ForgetADeletedPhotoThatSomebodyPutsBack) {
  wire::Upload line;
  line.set_digest(bytes_of(sha256(photo(10))));
  line.set_removed(true);
  log_->commit({line}).or_throw();
  put("back.jpg", 10);
  EXPECT_EQ(look_at("back.jpg").found, 0);
  EXPECT_THAT(forgotten_, ElementsAre(sha256(photo(10))));
}

TEST_F(FolderLooks, FindOnlyWhatIsOfTheirShard) {
  for (int i = 10; i < 40; ++i) put("s/" + std::to_string(i) + ".jpg", i);
  open(0, 2);
  look_at_all();
  std::vector<std::string> first = new_;
  EXPECT_GT(first.size(), 3U);
  EXPECT_LT(first.size(), 27U);
  for (int i = 40; i < 70; ++i) put("s/" + std::to_string(i) + ".jpg", i);
  open(1, 2);
  const auto found = look_at_all().found;
  EXPECT_EQ(found, static_cast<int64_t>(new_.size()));
  EXPECT_GT(found, 3);
  EXPECT_LT(found, 27);
}

TEST_F(FolderLooks, FindAgainWhatCouldNotBeTakenAndStopWhenTheyAreToldTo) {
  put("new.jpg", 10);
  takes_ = Status(Code::kNoSpace, "full");
  const auto status = [&] {
    return inventory_->follow({.files = {"new.jpg"}}, system_clock(), [&] { return stopping_; })
        .status();
  };
  EXPECT_EQ(status().code(), Code::kNoSpace);
  EXPECT_EQ(status().code(), Code::kNoSpace);
  stopping_ = true;
  EXPECT_EQ(status().code(), Code::kCancelled);
  stopping_ = false;
  takes_ = Status();
  open();  // as after a crash
  EXPECT_EQ(look_at_all().found, 1);
  EXPECT_THAT(new_, ElementsAre("new.jpg"));
}

// All of it, with the kernel's word for it.
TEST_F(FolderLooks, FollowARealDirectoryWithinSeconds) {
  std::mutex mutex;
  std::set<std::string> found;
  config_.found = [&](std::span<const FoundPhoto> some) {
    const std::lock_guard lock(mutex);
    for (const FoundPhoto& f : some) found.insert((f.is_new ? "+" : "=") + f.path);
    return Status();
  };
  inventory_ = std::make_unique<PhotoInventory>(config_, real_fs());
  std::atomic<bool> ending = false;
  FolderFollower follower({.clock = system_clock(),
                           .look =
                               [&](const DirectoryChanges& c) {
                                 return inventory_->follow(c, system_clock(),
                                                           [&] { return ending.load(); });
                               },
                           .count = [&] { inventory_->count(); }},
                          {.rescan = std::chrono::seconds(0)});
  const FolderThread thread(watch_directory(at("photos")), follower, system_clock(), ending);
  const auto has = [&](const std::string& what) {
    const auto until = system_clock().monotonic() + seconds(30);
    for (;; std::this_thread::sleep_for(milliseconds(5))) {
      const std::lock_guard lock(mutex);
      if (found.contains(what)) return true;
      if (system_clock().monotonic() > until) return false;
    }
  };
  put("a.jpg", 10, true);
  EXPECT_TRUE(has("+a.jpg"));
  publish(real_fs(), at("photos/b.jpg"), photo(11)).or_throw();
  EXPECT_TRUE(has("+b.jpg"));
  put("c/d/e/f.jpg", 12, true);
  EXPECT_TRUE(has("+c/d/e/f.jpg"));
  files::rename(at("photos/c"), at("photos/g"));
  EXPECT_TRUE(has("=g/d/e/f.jpg"));
  put_bytes("g/d/bad.jpg", "bad", true);
  put("g/d/bad.jpg", 13, true);
  EXPECT_TRUE(has("+g/d/bad.jpg"));
  const std::string slow = photo(14);
  {
    std::ofstream out(at("photos/slow.jpg"), std::ios::binary);
    out << slow.substr(0, 200) << std::flush;
    std::this_thread::sleep_for(milliseconds(700));
    out << slow.substr(200);
  }
  EXPECT_TRUE(has("+slow.jpg"));
  EXPECT_EQ(found.size(), 6U);
}

}  // namespace
}  // namespace ndtrain::ndp
