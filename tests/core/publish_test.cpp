#include "framework/core/publish.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "framework/core/memory_fs.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::StartsWith;

constexpr int64_t kSteps = 5;  // create, write, fsync, rename, fsync of the directory

void prepare(MemoryFs& fs) {
  fs.make_directories("d").or_throw();
  publish(fs, "d/file", "old bytes").or_throw();
}

// Dies in each step of publishing over an old file, comes up as `crash` says, and looks.
void die_in_each_step(const std::function<void(MemoryFs&)>& crash) {
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
  EXPECT_THAT(*fs.list(""), ElementsAre(StartsWith(".file.tmp-"), StartsWith(".file.tmp-")));
  a.write("a").or_throw();
  b.write("b").or_throw();
  b.commit().or_throw();
  a.commit().or_throw();
  EXPECT_EQ(*fs.read("file"), "a");
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
