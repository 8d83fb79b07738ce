#include "framework/testing/memory_fs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "framework/testing/fsync_throws.h"
#include "tests/support/files.h"

namespace ndtrain {
namespace {

using support::bytes_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Survives = MemoryFs::Survives;

std::unique_ptr<File> create(Fs& fs, const std::string& path, std::string_view text) {
  auto file = fs.open(path, Fs::Mode::kCreate).or_throw();
  file->append(bytes_of(text)).or_throw();
  return file;
}

TEST(MemoryFs, OnePathHasManySpellings) {
  MemoryFs fs;
  fs.make_directories("d").or_throw();
  create(fs, "d/a", "x");
  EXPECT_EQ(*fs.read("/d//a"), "x");
  EXPECT_EQ(*fs.read("./d/./a"), "x");
  EXPECT_THAT(*fs.list("."), ElementsAre("d"));
}

TEST(MemoryFs, ACrashTakesWhatWasNotSynced) {
  MemoryFs fs;
  auto kept = create(fs, "kept", "safe");
  kept->sync();
  fs.sync_directory("");
  kept->append(bytes_of(" and loose")).or_throw();
  create(fs, "nameless", "x")->sync();  // synced, but its name is not
  fs.crash();
  EXPECT_THAT(*fs.list(""), ElementsAre("kept"));
  EXPECT_EQ(*fs.read("kept"), "safe");
}

TEST(MemoryFs, ANameCanSurviveItsContents) {
  MemoryFs fs;
  create(fs, "a", "text");
  fs.crash(Survives::kNames);
  EXPECT_EQ(*fs.read("a"), "");
}

TEST(MemoryFs, EverythingCanSurvive) {
  MemoryFs fs;
  create(fs, "a", "text");
  fs.crash(Survives::kAll);
  EXPECT_EQ(*fs.read("a"), "text");
  fs.crash();  // and is on the disk from then on
  EXPECT_EQ(*fs.read("a"), "text");
}

TEST(MemoryFs, ARenameOrRemovalThatWasNotSyncedIsUndone) {
  MemoryFs fs;
  create(fs, "a", "a")->sync();
  create(fs, "b", "b")->sync();
  fs.sync_directory("/");
  fs.rename("a", "c").or_throw();
  fs.remove("b").or_throw();
  fs.crash();
  EXPECT_THAT(*fs.list(""), ElementsAre("a", "b"));
  fs.rename("a", "c").or_throw();
  fs.remove("b").or_throw();
  fs.sync_directory("/");
  fs.crash();
  EXPECT_THAT(*fs.list(""), ElementsAre("c"));
}

TEST(MemoryFs, DirectoriesAreDurableAtOnce) {
  MemoryFs fs;
  fs.make_directories("a/b").or_throw();
  fs.crash();
  EXPECT_TRUE(fs.exists("a/b"));
}

TEST(MemoryFs, FilesOpenBeforeACrashAreOfNoUse) {
  MemoryFs fs;
  auto file = create(fs, "a", "x");
  fs.sync_directory("");
  fs.crash();
  EXPECT_EQ(file->append(bytes_of("y")).code(), Code::kIo);
  const FsyncThrows throws;
  EXPECT_THROW(file->sync(), FsyncFailed);
  EXPECT_FALSE(file->size().ok());
}

TEST(MemoryFs, TheNthMutatingCallFailsOnce) {
  MemoryFs fs;
  fs.fail_call(3, Code::kNoSpace);
  auto file = create(fs, "a", "12");  // two calls
  EXPECT_EQ(file->append(bytes_of("3456")).code(), Code::kNoSpace);
  EXPECT_EQ(*fs.read("a"), "1234");  // half arrived
  EXPECT_TRUE(file->append(bytes_of("7")).ok());
  EXPECT_EQ(fs.mutating_calls(), 4);
}

TEST(MemoryFs, ASyncThatFailsKeepsNothing) {
  MemoryFs fs;
  auto file = create(fs, "a", "x");
  fs.sync_directory("");
  fs.fail_call(1);
  const FsyncThrows throws;
  EXPECT_THROW(file->sync(), FsyncFailed);
  fs.crash();
  EXPECT_EQ(*fs.read("a"), "");
}

TEST(MemoryFs, ADeadMachineAnswersNothingUntilItIsUpAgain) {
  MemoryFs fs;
  create(fs, "a", "x")->sync();
  fs.sync_directory("");
  fs.die_in_call(1);
  EXPECT_TRUE(fs.exists("a"));  // reading does not count
  EXPECT_FALSE(fs.remove("a").ok());
  EXPECT_THROW((void)fs.exists("a"), Error);
  EXPECT_FALSE(fs.list("").ok());
  EXPECT_FALSE(fs.make_directories("d").ok());
  fs.crash();
  EXPECT_EQ(*fs.read("a"), "x");
}

TEST(MemoryFs, AFullVolumeTakesWhatFits) {
  MemoryFs fs;
  fs.set_capacity(10);
  create(fs, "a", "123456");
  auto file = fs.open("b", Fs::Mode::kCreate).or_throw();
  EXPECT_EQ(file->append(bytes_of("abcdef")).code(), Code::kNoSpace);
  EXPECT_EQ(*fs.read("b"), "abcd");
  EXPECT_EQ(fs.space("")->free, 0);
  EXPECT_EQ(fs.space("")->total, 10);
  fs.remove("a").or_throw();
  EXPECT_EQ(fs.space("")->free, 6);
  EXPECT_TRUE(file->append(bytes_of("efghij")).ok());
  fs.set_capacity(3);
  EXPECT_EQ(fs.space("")->free, 0);
}

// The crash by chance finds every outcome that a disk may show: nothing, a part, zeros, all.
TEST(MemoryFs, ChanceFindsEveryWayToTearAWrite) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    MemoryFs fs;
    auto file = create(fs, "a", "+");
    file->sync();
    fs.sync_directory("");
    file->append(bytes_of("12")).or_throw();
    Rng rng(seed);
    fs.crash(rng);
    seen.insert(*fs.read("a"));
  }
  EXPECT_THAT(seen, ElementsAre("+", std::string("+\0", 2), std::string("+\0\0", 3), "+1",
                                std::string("+1\0", 3), "+12"));
}

// What publish() is for: the obvious way to write a file loses both the old bytes and the new ones.
TEST(MemoryFs, OverwritingInPlaceIsSeenToLoseBothVersions) {
  MemoryFs fs;
  create(fs, "a", "old")->sync();
  fs.sync_directory("");
  fs.die_in_call(2);
  auto file = fs.open("a", Fs::Mode::kCreate).or_throw();
  EXPECT_FALSE(file->append(bytes_of("newer!")).ok());
  fs.crash(Survives::kAll);
  EXPECT_EQ(*fs.read("a"), "new");
}

// And renaming without an fsync before it can leave an empty file.
TEST(MemoryFs, RenamingUnsyncedBytesIsSeenToLoseThem) {
  MemoryFs fs;
  create(fs, "a", "old")->sync();
  fs.sync_directory("");
  create(fs, "t", "new");
  fs.rename("t", "a").or_throw();
  fs.sync_directory("");
  fs.crash();
  EXPECT_THAT(*fs.read("a"), IsEmpty());
}

TEST(MemoryFs, ACrashEndsLocksAndVisits) {
  MemoryFs fs;
  const auto before = fs.open("file", Fs::Mode::kCreate).or_throw();
  ASSERT_TRUE(before->lock().ok());
  EXPECT_TRUE(fs.first_visit(""));
  fs.crash(MemoryFs::Survives::kAll);
  EXPECT_EQ(before->lock().code(), Code::kIo);
  EXPECT_TRUE(fs.open("file", Fs::Mode::kRead).or_throw()->lock().ok());
  EXPECT_TRUE(fs.first_visit(""));
}

}  // namespace
}  // namespace ndtrain
