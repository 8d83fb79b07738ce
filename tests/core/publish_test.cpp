#include "framework/core/publish.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "framework/testing/fsync_throws.h"
#include "framework/testing/memory_fs.h"
#include "tests/support/files.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::StartsWith;

constexpr int64_t kSteps = 5;  // create, write, fsync, rename, fsync of the directory

void prepare(MemoryFs& fs) {
  fs.make_directories("d").or_throw();
  publish(fs, "d/file", "old bytes").or_throw();
}

// Dies in each step of publishing over an old file, comes up as `crash` says, and looks.
void die_in_each_step(const std::function<void(MemoryFs&)>& crash) {
  const FsyncThrows throws;
  for (int64_t step = 1; step <= kSteps + 1; ++step) {
    MemoryFs fs;
    prepare(fs);
    fs.die_in_call(step);
    bool done = false;
    try {
      done = publish(fs, "d/file", "the new bytes").ok();
    } catch (const FsyncFailed&) {
    }
    EXPECT_EQ(done, step > kSteps);
    crash(fs);
    const Result<std::string> now = fs.read("d/file");
    ASSERT_TRUE(now.ok()) << "step " << step << ": " << now.status().message();
    EXPECT_THAT(*now, AnyOf("old bytes", "the new bytes")) << "step " << step;
    if (done) {
      EXPECT_EQ(*now, "the new bytes");
    }
    // Whatever the crash left behind, the next one goes through.
    publish(fs, "d/file", "third").or_throw();
    EXPECT_EQ(*fs.read("d/file"), "third");
    EXPECT_THAT(*fs.list("d"), ElementsAre("file")) << "step " << step;
  }
}

TEST(Publish, AReaderSeesOldOrNewBytesAfterACrashAtAnyStep) {
  for (auto survives :
       {MemoryFs::Survives::kNothing, MemoryFs::Survives::kNames, MemoryFs::Survives::kAll}) {
    die_in_each_step([&](MemoryFs& fs) { fs.crash(survives); });
  }
}

TEST(Publish, AReaderSeesOldOrNewBytesAfterACrashThatLeavesWhatChanceDecides) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    die_in_each_step([&](MemoryFs& fs) {
      Rng rng(seed);
      fs.crash(rng);
    });
  }
}

TEST(Publish, AReaderSeesOldOrNewBytesWhileItRuns) {
  MemoryFs fs;
  prepare(fs);
  Publisher publisher = Publisher::start(fs, "d/file").or_throw();
  publisher.write("first half, ").or_throw();
  EXPECT_EQ(*fs.read("d/file"), "old bytes");
  publisher.write("second half").or_throw();
  EXPECT_EQ(*fs.read("d/file"), "old bytes");
  publisher.commit().or_throw();
  EXPECT_EQ(*fs.read("d/file"), "first half, second half");
  EXPECT_THAT(*fs.list("d"), ElementsAre("file"));
}

TEST(Publish, AFaultAtAnyStepIsToldAndLeavesNoTemporaryFile) {
  const FsyncThrows throws;
  for (int64_t step = 1; step <= kSteps; ++step) {
    MemoryFs fs;
    prepare(fs);
    fs.fail_call(step, Code::kIo);
    if (step == 3 || step == 5) {
      EXPECT_THROW(static_cast<void>(publish(fs, "d/file", "new").ok()), FsyncFailed);
    } else {
      EXPECT_EQ(publish(fs, "d/file", "new").code(), Code::kIo) << "step " << step;
    }
    EXPECT_EQ(*fs.read("d/file"), step == 5 ? "new" : "old bytes");
    EXPECT_THAT(*fs.list("d"), ElementsAre("file")) << "step " << step;
  }
}

TEST(Publish, AFullDiskLeavesTheOldBytes) {
  MemoryFs fs;
  prepare(fs);
  fs.set_capacity(15);
  EXPECT_EQ(publish(fs, "d/file", "more than fits").code(), Code::kNoSpace);
  EXPECT_EQ(*fs.read("d/file"), "old bytes");
  EXPECT_THAT(*fs.list("d"), ElementsAre("file"));
}

TEST(Publish, WithoutCommitNothingHappened) {
  MemoryFs fs;
  prepare(fs);
  {
    Publisher publisher = Publisher::start(fs, "d/file").or_throw();
    publisher.write("new").or_throw();
    Publisher moved = std::move(publisher);
    moved.write("er").or_throw();
    EXPECT_EQ(fs.list("d")->size(), 2u);
  }
  EXPECT_EQ(*fs.read("d/file"), "old bytes");
  EXPECT_THAT(*fs.list("d"), ElementsAre("file"));
}

TEST(Publish, TemporaryFilesAreHiddenAndOfTheirOwn) {
  MemoryFs fs;
  Publisher a = Publisher::start(fs, "file").or_throw();
  Publisher b = Publisher::start(fs, "file").or_throw();
  EXPECT_THAT(*fs.list(""), Each(StartsWith(".file.")));
  EXPECT_EQ(fs.list("")->size(), 2u);
  a.write("a").or_throw();
  b.write("b").or_throw();
  b.commit().or_throw();
  a.commit().or_throw();
  EXPECT_EQ(*fs.read("file"), "a");
}

TEST(Publish, ASweepLeavesWhatAPublisherStillWrites) {
  MemoryFs fs;
  Publisher publisher = Publisher::start(fs, "file").or_throw();
  publisher.write("bytes").or_throw();
  sweep_temporaries(fs, "");
  EXPECT_EQ(fs.list("")->size(), 1u);
  publisher.commit().or_throw();
  EXPECT_EQ(*fs.read("file"), "bytes");
}

TEST(Publish, ASweepRemovesOnlyTemporaryFilesOfOurs) {
  MemoryFs fs;
  std::string ours;
  {
    const Publisher publisher = Publisher::start(fs, "file").or_throw();
    ours = fs.list("")->at(0);
  }
  EXPECT_TRUE(is_temporary(ours));
  const std::vector<std::string> others = {"file",           ".file.tmp-1-2",
                                           ours.substr(1),   ours + "x",
                                           ours + "-",       ours.substr(0, ours.rfind('-')),
                                           ".file.ndt-tmp-", ".ndt-tmp-xyz-1-1"};
  for (const std::string& name : others) {
    EXPECT_FALSE(is_temporary(name)) << name;
    support::write_file(fs, name, "precious");
  }
  support::write_file(fs, ours, "left over");
  sweep_temporaries(fs, "");
  EXPECT_THAT(*fs.list(""), ::testing::UnorderedElementsAreArray(others));
}

// Another program sweeps just after a file was made, before its publisher could lock it.
class SweptAtOnce final : public Fs {
 public:
  explicit SweptAtOnce(int sweeps) : sweeps_(sweeps) {}

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override {
    Result<std::unique_ptr<File>> file = memory.open(path, mode);
    if (mode == Mode::kCreate && sweeps_-- > 0) sweep_temporaries(memory, parent_of(path));
    return file;
  }
  Result<FileInfo> info(const std::string& path) override { return memory.info(path); }
  Result<std::vector<std::string>> list(const std::string& d) override { return memory.list(d); }
  Status make_directories(const std::string& d) override { return memory.make_directories(d); }
  Status rename(const std::string& a, const std::string& b) override { return memory.rename(a, b); }
  Status remove(const std::string& path) override { return memory.remove(path); }
  Result<Space> space(const std::string& path) override { return memory.space(path); }

  MemoryFs memory;

 private:
  Status try_sync_directory(const std::string& d) override {
    return memory.sync_directory(d), Status();
  }

  int sweeps_;
};

TEST(Publish, ASweepBetweenMakingAndLockingIsSurvived) {
  SweptAtOnce fs(3);
  publish(fs, "file", "bytes").or_throw();
  EXPECT_EQ(*fs.memory.read("file"), "bytes");
  EXPECT_THAT(*fs.memory.list(""), ElementsAre("file"));
  SweptAtOnce endless(1000);
  EXPECT_EQ(publish(endless, "file", "bytes").code(), Code::kIo);
}

// A process that publishes into `path` until it is killed.
pid_t endless_publisher(const std::string& path) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const Result<Publisher> publisher = Publisher::start(real_fs(), path);
    if (write(ready[1], publisher.ok() ? "y" : "n", 1) == 1) pause();
    _exit(1);
  }
  char answer = 'n';
  EXPECT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  close(ready[0]);
  close(ready[1]);
  return child;
}

TEST(Publish, WhatAKilledProcessLeftIsSweptAndWhatALiveOneWritesIsNot) {
  const support::TemporaryDirectory root;
  const pid_t killed = endless_publisher(root.at("killed")),
              live = endless_publisher(root.at("live"));
  kill(killed, SIGKILL);
  waitpid(killed, nullptr, 0);
  EXPECT_EQ(real_fs().list(root.path())->size(), 2u);
  publish(real_fs(), root.at("mine"), "bytes").or_throw();
  EXPECT_THAT(*real_fs().list(root.path()), ElementsAre(StartsWith(".live."), "mine"));
  kill(live, SIGKILL);
  waitpid(live, nullptr, 0);
  sweep_temporaries(real_fs(), root.path());
  EXPECT_THAT(*real_fs().list(root.path()), ElementsAre("mine"));
}

TEST(Publish, UseAfterCommitIsABug) {
  MemoryFs fs;
  Publisher publisher = Publisher::start(fs, "file").or_throw();
  publisher.commit().or_throw();
  EXPECT_THROW(static_cast<void>(publisher.commit().ok()), Error);
  EXPECT_THROW(static_cast<void>(publisher.write("x").ok()), Error);
}

TEST(Publish, TheDirectoryMustExist) {
  MemoryFs fs;
  EXPECT_EQ(publish(fs, "none/file", "x").code(), Code::kNotFound);
}

TEST(Publish, WorksOnTheRealFileSystemUpToTheLongestName) {
  const support::TemporaryDirectory root;
  const std::string path = root.at(std::string(255, 'n'));
  publish(real_fs(), path, "one").or_throw();
  publish(real_fs(), path, "two").or_throw();
  EXPECT_EQ(*real_fs().read(path), "two");
  EXPECT_EQ(real_fs().list(root.path())->size(), 1u);
}

}  // namespace
}  // namespace ndtrain
