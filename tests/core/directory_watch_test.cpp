#include "framework/core/directory_watch.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

namespace files = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DirectoryWatchTest : public ::testing::Test {
 protected:
  DirectoryWatchTest() { begin(); }

  void begin() {
    files::create_directories(at(""));
    watch_ = watch_directory(root_.at("photos"));
    EXPECT_TRUE(watch_->wait(std::chrono::seconds(0)).all) << "before anything is heard";
  }
  std::string at(const std::string& path) const { return root_.at("photos/" + path); }
  void write(const std::string& path) const { std::ofstream(at(path)) << "bytes"; }
  // All that is heard until nothing has been for a moment.
  DirectoryChanges heard() {
    DirectoryChanges all;
    for (;;) {
      DirectoryChanges some = watch_->wait(std::chrono::milliseconds(100));
      if (some.empty()) return all;
      all.files.merge(some.files);
      all.places.merge(some.places);
      all.all = all.all || some.all;
    }
  }

  support::TemporaryDirectory root_;
  std::unique_ptr<DirectoryWatch> watch_;
};

TEST_F(DirectoryWatchTest, HearsOfAFileOnceItIsWrittenToItsEnd) {
  {
    std::ofstream slow(at("a.jpg"));
    slow << "half" << std::flush;
    EXPECT_TRUE(heard().empty());
    slow << "the rest";
  }
  const DirectoryChanges changes = heard();
  EXPECT_THAT(changes.files, ElementsAre("a.jpg"));
  EXPECT_THAT(changes.places, IsEmpty());
  EXPECT_FALSE(changes.all);
}

TEST_F(DirectoryWatchTest, HearsOfWhatIsRenamedRemovedAndLinked) {
  write(".a.jpg.x7Gq");  // as rsync does
  EXPECT_TRUE(heard().empty());
  files::rename(at(".a.jpg.x7Gq"), at("a.jpg"));
  EXPECT_THAT(heard().files, ElementsAre("a.jpg"));
  files::rename(at("a.jpg"), at("b.jpg"));
  EXPECT_THAT(heard().files, ElementsAre("a.jpg", "b.jpg"));
  files::create_hard_link(at("b.jpg"), at("c.jpg"));
  files::create_symlink(at("b.jpg"), at("d.jpg"));
  EXPECT_THAT(heard().files, ElementsAre("c.jpg", "d.jpg"));
  files::remove(at("b.jpg"));
  EXPECT_THAT(heard().files, ElementsAre("b.jpg"));
}

TEST_F(DirectoryWatchTest, HearsOfDirectoriesThatComeWithAllThatIsInThem) {
  files::create_directories(root_.at("elsewhere/x/y"));
  std::ofstream(root_.at("elsewhere/x/y/1.jpg")) << "bytes";
  files::rename(root_.at("elsewhere"), at("here"));
  EXPECT_THAT(heard().places, ElementsAre("here"));
  write("here/x/y/2.jpg");
  EXPECT_THAT(heard().files, ElementsAre("here/x/y/2.jpg"));
  files::rename(at("here"), at("there"));
  EXPECT_THAT(heard().places, ElementsAre("here", "there"));
  write("there/x/y/3.jpg");
  EXPECT_THAT(heard().files, ElementsAre("there/x/y/3.jpg"));
  files::rename(at("there"), root_.at("gone"));
  EXPECT_THAT(heard().places, ElementsAre("there"));
  std::ofstream(root_.at("gone/x/y/4.jpg")) << "bytes";
  EXPECT_TRUE(heard().empty()) << "it is no longer below";
}

// Whatever comes first: each file is heard of, or in a directory that is.
TEST_F(DirectoryWatchTest, LosesNothingInDirectoriesThatAreMadeAtOnce) {
  std::vector<std::string> paths;
  std::jthread maker([&] {
    for (int i = 0; i < 50; ++i) {
      const std::string directory = "d" + std::to_string(i) + "/e/f/g";
      files::create_directories(at(directory));
      paths.push_back(directory + "/photo.jpg");
      write(paths.back());
    }
  });
  DirectoryChanges all = heard();
  maker.join();
  DirectoryChanges rest = heard();
  all.files.merge(rest.files);
  all.places.merge(rest.places);
  for (const std::string& path : paths) {
    bool found = all.files.contains(path);
    for (std::string up = path; !up.empty(); up = files::path(up).parent_path()) {
      found = found || all.places.contains(up);
    }
    EXPECT_TRUE(found) << path;
  }
  write("d49/e/f/g/late.jpg");
  EXPECT_THAT(heard().files, Contains("d49/e/f/g/late.jpg"));
}

TEST_F(DirectoryWatchTest, FollowsLinksToDirectoriesButNotBack) {
  files::create_directories(root_.at("album"));
  files::create_directory_symlink(root_.at("album"), at("album"));
  EXPECT_THAT(heard().places, ElementsAre("album"));
  std::ofstream(root_.at("album/1.jpg")) << "bytes";
  EXPECT_THAT(heard().files, ElementsAre("album/1.jpg"));
  files::create_directories(at("loop"));
  files::create_directory_symlink(at(""), at("loop/back"));
  (void)heard();
  write("2.jpg");
  EXPECT_THAT(heard().files, ElementsAre("2.jpg"));
  files::remove(at("album"));
  EXPECT_THAT(heard().places, ElementsAre("album"));
}

TEST_F(DirectoryWatchTest, SaysThatAllMayHaveChangedWhenTooMuchComesAtOnceOrTheDirectoryGoes) {
  int64_t most = 0;
  std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> most;
  write("a.jpg");
  for (int64_t i = 0; i < most / 4 + 100 && most <= 65536; ++i) {  // two events each
    files::rename(at("a.jpg"), at("b.jpg"));
    files::rename(at("b.jpg"), at("a.jpg"));
  }
  files::create_directories(at("d"));
  const DirectoryChanges changes = heard();
  EXPECT_TRUE(changes.all || most > 65536);
  write("d/late.jpg");
  EXPECT_THAT(heard().files, ElementsAre("d/late.jpg")) << "though nobody heard of d";

  files::remove_all(root_.at("photos"));
  while (watch_->complete().ok()) (void)watch_->wait(std::chrono::milliseconds(10));
  EXPECT_EQ(watch_->complete().code(), Code::kNotFound);
  files::create_directories(at(""));
  while (!watch_->complete().ok()) {
    if (watch_->wait(std::chrono::seconds(10)).all) break;
  }
  write("e.jpg");
  EXPECT_THAT(heard().files, ElementsAre("e.jpg"));
}

TEST_F(DirectoryWatchTest, IsWokenFromAnotherThread) {
  std::jthread waker([this] { watch_->wake(); });
  EXPECT_TRUE(watch_->wait(std::chrono::hours(1)).empty());
}

TEST(NetworkFileSystem, IsNoDiskOfThisMachine) {
  EXPECT_EQ(network_file_system("/proc"), "");
  EXPECT_EQ(network_file_system("/no/such/place"), "");
}

}  // namespace
}  // namespace ndtrain
