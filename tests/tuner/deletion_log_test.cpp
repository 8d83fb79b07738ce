#include "tuner/service/deletion_log.h"

#include <gtest/gtest.h>

#include "framework/core/publish.h"
#include "framework/testing/memory_fs.h"

namespace ndtrain::tuner {
namespace {

std::vector<Digest> photos(int from, int to) {
  std::vector<Digest> all;
  for (int i = from; i < to; ++i) all.push_back(sha256("photo " + std::to_string(i)));
  return all;
}

TEST(DeletionLog, AreKeptInOrderAndOnce) {
  MemoryFs fs;
  fs.make_directories("state").or_throw();
  {
    DeletionLog t(fs, "state");
    EXPECT_EQ(t.mark(0), 0U);
    t.add(photos(0, 3)).or_throw();
    t.add(photos(1, 5)).or_throw();
    t.forget_first(2).or_throw();
  }
  DeletionLog t(fs, "state");
  ASSERT_EQ(t.size(), 5U);
  EXPECT_EQ(t.forgotten(), 2U);
  const std::vector<Digest> all = photos(0, 5);
  EXPECT_TRUE(std::ranges::equal(t.from(0), all));
  EXPECT_TRUE(t.has(all[4]));
  EXPECT_FALSE(t.has(photos(5, 6)[0]));
}

TEST(DeletionLog, AMarkNamesTheListUpToThere) {
  MemoryFs fs;
  for (const char* d : {"a", "b"}) fs.make_directories(d).or_throw();
  DeletionLog a(fs, "a"), b(fs, "b");
  a.add(photos(0, 3)).or_throw();
  b.add(photos(0, 1)).or_throw();
  b.add(photos(2, 3)).or_throw();
  b.add(photos(1, 2)).or_throw();
  EXPECT_EQ(a.mark(1), b.mark(1));
  EXPECT_NE(a.mark(2), b.mark(2));
  EXPECT_NE(a.mark(3), b.mark(3));
}

TEST(DeletionLog, AnotherFileOfThatNameIsNamed) {
  MemoryFs fs;
  fs.make_directories("state").or_throw();
  publish(fs, "state/deletions", "something else").or_throw();
  EXPECT_THROW(DeletionLog(fs, "state"), Error);
}

// What add() has answered is there, whatever call to the disk the power fails in, and what comes
// after is added to it.
TEST(DeletionLog, OutliveAPowerCutInEachCall) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    bool ended = false;
    for (int64_t n = 1; !ended; ++n) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", call " + std::to_string(n));
      MemoryFs fs;
      fs.make_directories("state").or_throw();
      int kept = 0;
      try {
        DeletionLog t(fs, "state");
        fs.die_in_call(n);
        for (; kept < 3; ++kept) t.add(photos(2 * kept, 2 * kept + 2)).or_throw();
        ended = true;
      } catch (const FsyncFailed&) {
      } catch (const Error&) {
      }
      Rng rng(seed * 1000 + static_cast<uint64_t>(n), "crash");
      seed == 0 ? fs.crash() : fs.crash(rng);
      DeletionLog after(fs, "state");
      ASSERT_GE(after.size(), static_cast<uint64_t>(2 * kept));
      after.add(photos(0, 6)).or_throw();
      const DeletionLog again(fs, "state");
      EXPECT_EQ(again.size(), 6U);
      ASSERT_LT(n, 100);
    }
  }
}

TEST(DeletionLog, AFullDiskAddsNothing) {
  MemoryFs fs;
  fs.make_directories("state").or_throw();
  DeletionLog t(fs, "state");
  t.add(photos(0, 1)).or_throw();
  fs.set_capacity(60);
  EXPECT_EQ(t.add(photos(1, 3)).code(), Code::kNoSpace);
  EXPECT_EQ(t.size(), 1U);
  fs.set_capacity(1 << 20);
  t.add(photos(2, 3)).or_throw();
  EXPECT_EQ(DeletionLog(fs, "state").size(), 2U);
}

}  // namespace
}  // namespace ndtrain::tuner
