// What a store knows of the trash, how it follows it, and what it shows of photos that are in it.
#include "ndp/pipestore/store_trash.h"

#include <gmock/gmock.h>

#include "framework/testing/fsync_throws.h"
#include "ndp/wire/digests.h"
#include "tests/pipestore/service_fixture.h"
#include "tests/pipestore/uploads_fixture.h"
#include "tests/support/files.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;
using testing::photo_file;

Digest hidden(int i) { return sha256("hidden " + std::to_string(i)); }

TEST(StoreTrash, IsThereAfterARestartAndCountsAsAbsentWhenItIsDamaged) {
  MemoryFs fs;
  fs.make_directories("state").or_throw();
  {
    StoreTrash t(fs, "state/trash.bin");
    EXPECT_EQ(t.revision(), 0U);
    t.replace({hidden(1), hidden(2)}, 7).or_throw();
    t.change(std::vector{hidden(3)}, std::vector{hidden(1)}, 8).or_throw();
    t.restore(hidden(2)).or_throw();
    t.restore(hidden(9)).or_throw();
  }
  {
    const StoreTrash t(fs, "state/trash.bin");
    EXPECT_EQ(t.revision(), 8U);
    EXPECT_TRUE(t.has(hidden(3)));
    for (const int i : {1, 2, 9}) EXPECT_FALSE(t.has(hidden(i))) << i;
  }
  std::string bytes = fs.read("state/trash.bin").or_throw();
  bytes[20] ^= 1;
  support::write_file(fs, "state/trash.bin", bytes);
  EXPECT_EQ(StoreTrash(fs, "state/trash.bin").revision(), 0U);
}

TEST(StoreTrash, OutlivesAPowerCutInEachCall) {
  const FsyncThrows throws;
  bool ended = false;
  for (int64_t n = 1; !ended; ++n) {
    SCOPED_TRACE(n);
    MemoryFs fs;
    fs.make_directories("state").or_throw();
    uint64_t done = 0;
    try {
      StoreTrash t(fs, "state/trash.bin");
      fs.die_in_call(n);
      for (; done < 3; ++done) {
        t.change(std::vector{hidden(static_cast<int>(done))}, {}, done + 1).or_throw();
      }
      ended = true;
    } catch (const FsyncFailed&) {
    } catch (const Error&) {
    }
    fs.crash();
    const StoreTrash after(fs, "state/trash.bin");
    ASSERT_GE(after.revision(), done);
    for (uint64_t i = 0; i < after.revision(); ++i) {
      ASSERT_TRUE(after.has(hidden(static_cast<int>(i)))) << i;
    }
    ASSERT_LT(n, 100);
  }
}

class TrashFollowerTest : public testing::StoreServiceTest {
 protected:
  void say(const std::vector<int>& photos, const std::vector<int>& restored, uint64_t revision,
           bool whole, bool last = true) {
    wire::ToStore m;
    m.set_term(1);
    wire::Trash& t = *m.mutable_trash();
    for (const int i : photos) t.mutable_photos()->append(bytes_of(hidden(i)));
    for (const int i : restored) t.mutable_restored()->append(bytes_of(hidden(i)));
    t.set_revision(revision);
    t.set_whole(whole);
    t.set_last(last);
    service_.handle({link_, m});
    lanes_.run();
  }
};

TEST_F(TrashFollowerTest, WhatTheTunerSaysCountsWhenItsLastPartIsThere) {
  connect();
  say({1}, {}, 5, true, false);
  EXPECT_FALSE(trash_.has(hidden(1)));
  say({2}, {}, 5, true);
  EXPECT_TRUE(trash_.has(hidden(1)) && trash_.has(hidden(2)));
  say({3}, {1}, 6, false);
  EXPECT_TRUE(!trash_.has(hidden(1)) && trash_.has(hidden(2)) && trash_.has(hidden(3)));
  EXPECT_EQ(restored_, 2);
  say({4}, {}, 7, true);
  EXPECT_TRUE(!trash_.has(hidden(3)) && trash_.has(hidden(4)));
  EXPECT_EQ(StoreTrash(fs_, "state/trash.bin").revision(), 7U);
}

TEST_F(TrashFollowerTest, PartsOfASessionThatBrokeDoNotCount) {
  connect();
  say({1}, {}, 5, true, false);
  service_.handle({link_, LinkClosed{"gone"}});
  connect();
  say({2}, {}, 6, true);
  EXPECT_FALSE(trash_.has(hidden(1)));
  EXPECT_TRUE(trash_.has(hidden(2)));
}

TEST_F(TrashFollowerTest, WhatCannotBeKeptIsHeardOfAgain) {
  connect();
  fs_.set_capacity(1);
  say({1}, {}, 5, true);
  EXPECT_FALSE(service_.connected()) << "the Tuner is to say it again";
  EXPECT_FALSE(trash_.has(hidden(1)));
}

class UploadsTrash : public testing::UploadsTest {
 protected:
  void begin() {
    fs_.make_directories("state").or_throw();
    trash_ = std::make_unique<StoreTrash>(fs_, "state/trash.bin");
    open({.trash = trash_.get()});
  }
  std::unique_ptr<StoreTrash> trash_;
};

TEST_F(UploadsTrash, APhotoThatIsInItIsNotShownAndIsAsItWasWhenItIsBack) {
  begin();
  version(1);
  const std::string file = photo_file(0);
  const Digest id = uploads_->add(file).or_throw().id;
  (void)uploads_->say(id, "peony").or_throw();
  const auto lines = [&] { return log_->counts().unacknowledged; };
  const int64_t before = lines();
  trash_->replace({id}, 1).or_throw();
  for (const Status& s : {uploads_->find(id).status(), uploads_->read(id).status(),
                          uploads_->say(id, "rose").status()}) {
    EXPECT_EQ(s.code(), Code::kNotFound);
    EXPECT_THAT(s.message(), HasSubstr("photos restore"));
  }
  trash_->replace({}, 2).or_throw();
  EXPECT_EQ(uploads_->read(id).or_throw(), file);
  EXPECT_EQ(uploads_->find(id).or_throw().known.truth, "peony");
  EXPECT_EQ(lines(), before);
}

TEST_F(UploadsTrash, AnUploadRestoresItAndSaysSoToTheTuner) {
  begin();
  version(1);
  const std::string file = photo_file(0);
  const Digest id = uploads_->add(file).or_throw().id;
  const uint64_t last = log_->after(0, 1 << 20).back().sequence;
  trash_->replace({id}, 41).or_throw();
  EXPECT_EQ(uploads_->add(file).or_throw().id, id);
  EXPECT_FALSE(trash_->has(id));
  EXPECT_EQ(uploads_->read(id).or_throw(), file);
  const auto more = log_->after(last, 1 << 20);
  ASSERT_EQ(more.size(), 1U);
  wire::Upload line;
  ASSERT_TRUE(line.ParseFromString(more[0].bytes));
  EXPECT_EQ(line.restores(), 41U);
  EXPECT_EQ(line.version(), 1U);
  EXPECT_FALSE(StoreTrash(fs_, "state/trash.bin").has(id)) << "after a restart, too";
}

TEST_F(UploadsTrash, APhotoThatWaitsForItsLabelInItGetsItWhenItIsBack) {
  begin();
  const Digest id = uploads_->add(photo_file(0)).or_throw().id;
  const Digest other = uploads_->add(photo_file(1)).or_throw().id;
  trash_->replace({id}, 1).or_throw();
  version(1);
  await([&] { return log_->find(other)->version == 1; });
  EXPECT_EQ(log_->find(id)->version, 0U);
  trash_->replace({}, 2).or_throw();
  uploads_->restored();
  await([&] { return log_->find(id)->version == 1; });
}

TEST_F(UploadsTrash, APhotoThatIsInItCanBeDeletedForGood) {
  begin();
  const Digest id = uploads_->add(photo_file(0)).or_throw().id;
  trash_->replace({id}, 1).or_throw();
  uploads_->forget({&id, 1}).or_throw();
  EXPECT_EQ(uploads_->add(photo_file(0)).status().code(), Code::kExists);
}

}  // namespace
}  // namespace ndtrain::ndp
