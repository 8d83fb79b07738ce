#include "ndp/wire/model_blobs.h"

#include <gtest/gtest.h>

#include "framework/core/limits.h"
#include "framework/core/publish.h"
#include "framework/testing/memory_fs.h"
#include "tests/support/files.h"

namespace ndtrain::ndp {
namespace {

struct Shelf {
  MemoryFs fs;
  ModelBlobs blobs{fs, "/models"};
  std::string bytes = std::string(1000, 'a') + std::string(1500, 'b');
  Digest model = sha256(bytes);

  Result<bool> add(int64_t offset, int64_t n) {
    return blobs.add(
        model, offset, static_cast<int64_t>(bytes.size()),
        std::string_view(bytes).substr(static_cast<size_t>(offset), static_cast<size_t>(n)));
  }
};

TEST(ModelBlobs, AModelIsThereOnceAllOfItIs) {
  Shelf s;
  EXPECT_FALSE(s.add(0, 700).or_throw());
  EXPECT_FALSE(s.blobs.has(s.model));
  EXPECT_EQ(s.blobs.offset(s.model).or_throw(), 700);
  EXPECT_TRUE(s.add(700, 1800).or_throw());
  EXPECT_TRUE(s.blobs.has(s.model));
  EXPECT_EQ(s.fs.read(s.blobs.path(s.model)).or_throw(), s.bytes);
  EXPECT_TRUE(s.add(700, 1800).or_throw()) << "a late repeat";
}

TEST(ModelBlobs, AnotherProcessGoesOnWhereThisOneStopped) {
  Shelf s;
  ASSERT_FALSE(s.add(0, 900).or_throw());
  ModelBlobs next(s.fs, "/models");
  EXPECT_EQ(next.offset(s.model).or_throw(), 900);
  EXPECT_TRUE(next.add(s.model, 900, 2500, std::string_view(s.bytes).substr(900)).or_throw());
}

TEST(ModelBlobs, APartOfAnEarlierSessionChangesNothing) {
  Shelf s;
  ASSERT_FALSE(s.add(0, 900).or_throw());
  EXPECT_EQ(s.add(0, 900).status().code(), Code::kCancelled);
  EXPECT_EQ(s.add(901, 10).status().code(), Code::kCancelled);
  EXPECT_EQ(s.blobs.offset(s.model).or_throw(), 900);
}

TEST(ModelBlobs, WrongBytesAreFoundAndStartedOver) {
  Shelf s;
  ASSERT_FALSE(s.add(0, 900).or_throw());
  EXPECT_EQ(s.blobs.add(s.model, 900, 2500, std::string(1600, 'x')).status().code(),
            Code::kCorrupt);
  EXPECT_FALSE(s.blobs.has(s.model));
  EXPECT_EQ(s.blobs.offset(s.model).or_throw(), 0);
  EXPECT_TRUE(s.add(0, 2500).or_throw());
}

TEST(ModelBlobs, PartsBeyondTheModelAndModelsBeyondTheLimitAreRefused) {
  Shelf s;
  EXPECT_EQ(s.blobs.add(s.model, 0, 2, "abc").status().code(), Code::kCorrupt);
  EXPECT_EQ(s.blobs.add(s.model, 0, limits::kModelFile + 1, "abc").status().code(),
            Code::kTooLarge);
  EXPECT_EQ(s.blobs.add(s.model, 0, 0, "").status().code(), Code::kTooLarge);
  EXPECT_FALSE(s.blobs.add(s.model, 0, limits::kModelFile, "abc").or_throw());
}

TEST(ModelBlobs, ACrashAnywhereLeavesAWholeModelOrNone) {
  for (const auto survives :
       {MemoryFs::Survives::kNothing, MemoryFs::Survives::kNames, MemoryFs::Survives::kAll}) {
    for (int64_t step = 1; step < 20; ++step) {
      Shelf s;
      s.fs.die_in_call(step);
      try {
        for (int64_t at = 0; at < 2500; at += 500) {
          if (!s.add(at, 500).ok()) break;
        }
      } catch (const FsyncFailed&) {  // ends the process
      }
      s.fs.crash(survives);
      ModelBlobs next(s.fs, "/models");
      for (int tries = 0; tries < 3 && !next.has(s.model); ++tries) {
        const int64_t at = next.offset(s.model).or_throw();
        (void)next.add(
            s.model, at, 2500,
            std::string_view(s.bytes).substr(static_cast<size_t>(std::min<int64_t>(at, 2500))));
      }
      ASSERT_TRUE(next.has(s.model)) << "died in call " << step;
      EXPECT_EQ(s.fs.read(next.path(s.model)).or_throw(), s.bytes) << "died in call " << step;
    }
  }
}

TEST(ModelBlobs, AFullDiskIsSaidAndWhatCameIsKept) {
  Shelf s;
  s.fs.set_capacity(1200);
  ASSERT_FALSE(s.add(0, 1000).or_throw());
  EXPECT_EQ(s.add(1000, 1500).status().code(), Code::kNoSpace);
  s.fs.set_capacity(1 << 20);
  const int64_t at = s.blobs.offset(s.model).or_throw();
  EXPECT_GE(at, 1000);
  EXPECT_TRUE(s.add(at, 2500 - at).or_throw());
}

// That of the file, and that of the directory that has its name now.
TEST(ModelBlobs, AnFsyncThatFailsEndsTheProcess) {
  std::vector<int64_t> fatal;
  for (int64_t call = 1; call < 8; ++call) {
    Shelf s;
    s.fs.fail_call(call);
    try {
      (void)s.add(0, 2500).ok();
    } catch (const FsyncFailed&) {
      fatal.push_back(call);
    }
  }
  // It is opened, appended to, opened, synced, renamed; its directory is synced.
  EXPECT_EQ(fatal, (std::vector<int64_t>{4, 6}));
}

TEST(ModelBlobs, BytesThatTheDiskChangedAreNotTheModels) {
  Shelf s;
  ASSERT_TRUE(s.add(0, 2500).or_throw());
  EXPECT_TRUE(s.blobs.check(s.model).ok());
  std::string bytes = s.bytes;
  bytes[1234] ^= 1;
  support::write_file(s.fs, s.blobs.path(s.model), bytes);
  EXPECT_EQ(s.blobs.check(s.model).code(), Code::kCorrupt);
  s.blobs.remove(s.model);
  EXPECT_EQ(s.blobs.check(s.model).code(), Code::kNotFound);
}

}  // namespace
}  // namespace ndtrain::ndp
