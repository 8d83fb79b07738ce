#include "tuner/service/trash_log.h"

#include <gtest/gtest.h>

#include "framework/testing/fsync_throws.h"
#include "framework/testing/memory_fs.h"
#include "tests/support/files.h"

namespace ndtrain::tuner {
namespace {

Digest trashed(int i) { return sha256("trashed " + std::to_string(i)); }

TrashedPhoto entry(int i, int64_t until = 100) {
  return {.photo = trashed(i), .who = "ann", .since = 7, .until = until, .paths = {"attic/x.jpg"}};
}

TEST(TrashLog, KnowsAfterARestartWhatIsInItAndWhatWasRestored) {
  MemoryFs fs;
  fs.make_directories("state").or_throw();
  {
    TrashLog t(fs, "state");
    EXPECT_EQ(t.revision(), 0U);
    t.put({entry(1), entry(2), entry(3)}).or_throw();
    t.put({entry(1, 200)}).or_throw();
    t.restore(std::vector{trashed(2), trashed(9)}).or_throw();
    t.gone(std::vector{trashed(3)}).or_throw();
  }
  const TrashLog t(fs, "state");
  ASSERT_EQ(t.photos().size(), 1U);
  const TrashedPhoto& p = t.photos().at(trashed(1));
  EXPECT_EQ(p.who, "ann");
  EXPECT_EQ(p.since, 7);
  EXPECT_EQ(p.until, 200);
  EXPECT_EQ(p.paths, std::vector<std::string>{"attic/x.jpg"});
  EXPECT_EQ(p.revision, 2U);
  EXPECT_EQ(t.restored(), std::set{trashed(2)});
  EXPECT_EQ(t.revision(), 4U);
}

TEST(TrashLog, IsRewrittenWithoutWhatCountsNoMoreAndKeepsItsRevision) {
  MemoryFs fs;
  fs.make_directories("state").or_throw();
  {
    TrashLog t(fs, "state");
    for (int i = 0; i < 600; ++i) {
      t.put({entry(1)}).or_throw();
      t.restore(std::vector{trashed(1)}).or_throw();
    }
    t.put({entry(2)}).or_throw();
  }
  const int64_t before = fs.info("state/trash").or_throw().size;
  for (int again = 0; again < 2; ++again) {
    const TrashLog t(fs, "state");
    EXPECT_EQ(t.revision(), 1201U);
    EXPECT_EQ(t.photos().size(), 1U);
    EXPECT_EQ(t.restored().size(), 1U);
  }
  EXPECT_LT(fs.info("state/trash").or_throw().size, before / 100);
}

TEST(TrashLog, ADamagedLineCostsNoOther) {
  MemoryFs fs;
  fs.make_directories("state").or_throw();
  {
    TrashLog t(fs, "state");
    for (int i = 0; i < 3; ++i) t.put({entry(i)}).or_throw();
  }
  std::string bytes = fs.read("state/trash").or_throw();
  bytes[bytes.find('\n') + 40] ^= 1;  // of the second line
  support::write_file(fs, "state/trash", bytes);
  TrashLog t(fs, "state");
  EXPECT_EQ(t.photos().size(), 2U);
  EXPECT_FALSE(t.photos().contains(trashed(1)));
  t.put({entry(1)}).or_throw();
  EXPECT_EQ(TrashLog(fs, "state").photos().size(), 3U);
}

// What was answered is there, whatever call to the disk the power fails in, and what comes after is
// added to it.
TEST(TrashLog, OutlivesAPowerCutInEachCall) {
  const FsyncThrows throws;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    bool ended = false;
    for (int64_t n = 1; !ended; ++n) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", call " + std::to_string(n));
      MemoryFs fs;
      fs.make_directories("state").or_throw();
      int done = 0;
      try {
        TrashLog t(fs, "state");
        fs.die_in_call(n);
        for (; done < 3; ++done) t.put({entry(2 * done), entry(2 * done + 1)}).or_throw();
        t.restore(std::vector{trashed(0)}).or_throw();
        ended = true;
      } catch (const FsyncFailed&) {
      } catch (const Error&) {
      }
      Rng rng(seed * 1000 + static_cast<uint64_t>(n), "crash");
      seed == 0 ? fs.crash() : fs.crash(rng);
      TrashLog after(fs, "state");
      for (int i = ended ? 1 : 0; i < 2 * done; ++i) {
        ASSERT_TRUE(after.photos().contains(trashed(i)) || (i == 0 && done == 3)) << i;
      }
      ASSERT_TRUE(!ended || after.restored().contains(trashed(0)));
      after.put({entry(7)}).or_throw();
      ASSERT_TRUE(TrashLog(fs, "state").photos().contains(trashed(7)));
      ASSERT_LT(n, 100);
    }
  }
}

TEST(TrashLog, AFullDiskAddsNothing) {
  MemoryFs fs;
  fs.make_directories("state").or_throw();
  TrashLog t(fs, "state");
  t.put({entry(1)}).or_throw();
  fs.set_capacity(fs.info("state/trash").or_throw().size + 20);
  EXPECT_EQ(t.put({entry(2)}).code(), Code::kNoSpace);
  EXPECT_EQ(t.restore(std::vector{trashed(1)}).code(), Code::kNoSpace);
  EXPECT_EQ(t.photos().size(), 1U);
  EXPECT_TRUE(t.restored().empty());
  fs.set_capacity(1 << 20);
  t.put({entry(2)}).or_throw();
  EXPECT_EQ(TrashLog(fs, "state").photos().size(), 2U);
}

}  // namespace
}  // namespace ndtrain::tuner
