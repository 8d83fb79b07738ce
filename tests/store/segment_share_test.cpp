// One process writes a store, others read it meanwhile. File systems here see other opens of the
// same process as those of others.
#include <gmock/gmock.h>
#include <unistd.h>

#include "framework/core/rng.h"
#include "tests/store/store_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_store;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const Digest kGroup = digest("extractor"), kOther = digest("another");

std::unique_ptr<SegmentStore> reader(Fs& fs, const Clock& clock) {
  return SegmentStore::open_to_read(fs, clock, kDir).or_throw();
}

class SegmentShare : public ::testing::Test {
 protected:
  MemoryFs fs_;
  ManualClock clock_;
};

TEST_F(SegmentShare, WhoeverFindsItLockedIsToldByWhom) {
  const auto store = open_store(fs_, clock_, {.who = "trains runs/a"});
  const Status s = SegmentStore::open(fs_, clock_, kDir).status();
  EXPECT_EQ(s.code(), Code::kExists);
  EXPECT_THAT(s.message(), HasSubstr("process " + std::to_string(getpid()) + " on "));
  EXPECT_THAT(s.message(), HasSubstr("(trains runs/a)"));
}

TEST_F(SegmentShare, WhatIsThereIsReadBesideAWriterAndNothingIsChanged) {
  const auto writer = open_store(fs_, clock_, {.segment_bytes = 1 << 10});
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(put(*writer, kGroup, key(i), "features").ok());
  ASSERT_TRUE(writer->flush().ok());
  const int64_t calls = fs_.mutating_calls();
  const auto r = reader(fs_, clock_);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(get(*r, kGroup, key(i)), "features");
  EXPECT_LE(fs_.mutating_calls(), calls + 1) << "the directory is made, if absent";
  ASSERT_TRUE(put(*writer, kGroup, key(50), "more").ok());
  EXPECT_EQ(get(*r, kGroup, key(50)), "absent");
  EXPECT_EQ(get(*reader(fs_, clock_), kGroup, key(50)), "more");
  EXPECT_THROW((void)put(*r, kGroup, key(51), "x").ok(), Error);
  EXPECT_THROW((void)r->remove(kGroup, key(1)).ok(), Error);
  EXPECT_THROW((void)r->gc().ok(), Error);
  EXPECT_TRUE(r->close().ok());
}

TEST_F(SegmentShare, WhatIsPinnedStaysReadableThoughTheWriterDeletesIt) {
  const auto writer = open_store(fs_, clock_, {.segment_bytes = 1 << 10});
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(put(*writer, kGroup, key(i), "features").ok());
  const auto r = reader(fs_, clock_);
  r->pin(kGroup);
  ASSERT_TRUE(writer->remove_group(kGroup).ok());
  EXPECT_TRUE(segment_files(fs_).empty());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(get(*r, kGroup, key(i)), "features");
}

TEST_F(SegmentShare, OneThatHasStoppedWritingReadsOnWhileAnotherWrites) {
  const auto first = open_store(fs_, clock_);
  ASSERT_TRUE(put(*first, kGroup, key(1), "features").ok());
  first->pin(kGroup);
  ASSERT_TRUE(first->stop_writing().ok());
  const auto second = open_store(fs_, clock_);
  EXPECT_EQ(get(*second, kGroup, key(1)), "features") << "it is durable";
  ASSERT_TRUE(put(*second, kOther, key(2), "x").ok());
  ASSERT_TRUE(second->remove_group(kGroup).ok());
  EXPECT_EQ(get(*first, kGroup, key(1)), "features");
  EXPECT_THROW((void)put(*first, kGroup, key(3), "x").ok(), Error);
}

// Whatever the writer has done before, and does between two reads, a reader finds what was put.
TEST_F(SegmentShare, AReaderFindsNothingButWhatWasPut) {
  Rng rng(5, "share");
  auto writer = open_store(fs_, clock_, {.segment_bytes = 600, .index_every_bytes = 700});
  std::unique_ptr<SegmentStore> r;
  for (int i = 0; i < 2000; ++i) {
    const Digest k = key(static_cast<int64_t>(rng.next_below(40)));
    const Digest group = rng.next_below(2) ? kGroup : kOther;
    switch (rng.next_below(12)) {
      case 0:
        ASSERT_TRUE(writer->remove(group, k).ok());
        break;
      case 1:
        ASSERT_TRUE(writer->compact().ok());
        break;
      case 2:
        ASSERT_TRUE(writer->remove_group(group).ok());
        break;
      case 3:
        ASSERT_TRUE(writer->flush().ok());
        break;
      case 4:
        r = reader(fs_, clock_);
        break;
      default:
        ASSERT_TRUE(put(*writer, group, k, to_hex(k)).ok());
    }
    if (!r) continue;
    EXPECT_THAT(get(*r, group, k), AnyOf(to_hex(k), "absent", HasSubstr("does not exist")));
  }
}

}  // namespace
}  // namespace ndtrain::ndp
