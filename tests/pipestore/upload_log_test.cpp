#include "ndp/pipestore/upload_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "framework/core/memory_fs.h"
#include "framework/core/publish.h"
#include "ndp/wire/digests.h"

namespace ndtrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Digest photo(int i) { return sha256("photo " + std::to_string(i)); }

wire::Upload about(int i) {
  wire::Upload line;
  line.set_digest(bytes_of(photo(i)));
  line.set_path("uploads/" + std::to_string(i) + ".jpg");
  line.set_time(1000 + i);
  return line;
}
wire::Upload labelled(int i, uint64_t version, const std::string& name) {
  wire::Upload line = about(i);
  line.set_version(version);
  wire::TopClass& top = *line.add_top();
  top.set_name(name);
  top.set_score(.5F);
  return line;
}
wire::Upload truth(int i, const std::string& name) {
  wire::Upload line = about(i);
  line.set_truth(name);
  return line;
}
wire::Upload removed(int i) {
  wire::Upload line = about(i);
  line.set_removed(true);
  return line;
}

class UploadLogTest : public ::testing::Test {
 protected:
  UploadLogTest() { open(); }
  void open() {
    log_.reset();
    log_ = UploadLog::open(fs_, "uploads").or_throw();
  }
  std::vector<uint64_t> outbox() const {
    std::vector<uint64_t> all;
    for (const UploadLog::Line& l : log_->after(0, 1 << 20)) all.push_back(l.sequence);
    return all;
  }
  std::string file() { return fs_.read("uploads/log").or_throw(); }

  MemoryFs fs_;
  std::unique_ptr<UploadLog> log_;
};

TEST_F(UploadLogTest, RemembersWhatWasCommitted) {
  log_->commit({about(1)}).or_throw();
  log_->commit({labelled(2, 7, "rose")}).or_throw();
  log_->commit({truth(2, "tulip")}).or_throw();
  for (int i = 0; i < 2; ++i, open()) {
    EXPECT_EQ(log_->find(photo(1))->version, 0U);
    const auto two = log_->find(photo(2));
    ASSERT_TRUE(two);
    EXPECT_EQ(two->path, "uploads/2.jpg");
    EXPECT_EQ(two->version, 7U);
    EXPECT_EQ(two->top.at(0).name(), "rose");
    EXPECT_EQ(two->truth, "tulip");
    EXPECT_FALSE(log_->find(photo(3)));
    EXPECT_THAT(log_->unlabelled({}, 9), ElementsAre(photo(1)));
    EXPECT_THAT(outbox(), ElementsAre(1U, 2U, 3U));
  }
}

TEST_F(UploadLogTest, APhotoIsUnlabelledUntilAVersionHasLabelledIt) {
  log_->commit({about(1)}).or_throw();
  log_->commit({truth(1, "tulip")}).or_throw();
  EXPECT_THAT(log_->unlabelled({}, 9), ElementsAre(photo(1)));
  log_->commit({labelled(1, 1, "rose")}).or_throw();
  EXPECT_THAT(log_->unlabelled({}, 9), IsEmpty());
  EXPECT_EQ(log_->counts().photos, 1);
}

TEST_F(UploadLogTest, WhatIsAcknowledgedIsNotSentAgainAlsoAfterARestart) {
  for (int i = 0; i < 5; ++i) log_->commit({labelled(i, 1, "rose")}).or_throw();
  log_->acknowledged(3);
  EXPECT_THAT(outbox(), ElementsAre(4U, 5U));
  open();
  EXPECT_THAT(outbox(), ElementsAre(4U, 5U));
  log_->acknowledged(5);
  open();
  log_->commit({labelled(9, 1, "rose")}).or_throw();
  EXPECT_THAT(outbox(), ElementsAre(6U));
}

TEST_F(UploadLogTest, TheOutboxIsReadInPieces) {
  for (int i = 0; i < 5; ++i) log_->commit({labelled(i, 1, "rose")}).or_throw();
  EXPECT_EQ(log_->after(0, 1).size(), 1U);
  EXPECT_EQ(log_->after(2, 1 << 20).size(), 3U);
  EXPECT_TRUE(log_->after(5, 1).empty());
}

TEST_F(UploadLogTest, OfADeletedPhotoNothingStaysButItsDigest) {
  log_->commit({labelled(1, 1, "orchid")}).or_throw();
  log_->commit({truth(1, "violet")}).or_throw();
  log_->commit({labelled(2, 1, "rose")}).or_throw();
  log_->commit({removed(1)}).or_throw();
  EXPECT_TRUE(log_->find(photo(1))->removed);
  EXPECT_FALSE(log_->find(photo(1))->uploaded);
  log_->acknowledged(2);  // and what is in the outbox goes too
  log_->compact().or_throw();
  EXPECT_THAT(outbox(), ElementsAre(3U, 4U));
  EXPECT_THAT(file(), HasSubstr("uploads/1.jpg"));  // the Tuner has not heard it
  log_->acknowledged(4);
  log_->compact().or_throw();
  for (int i = 0; i < 2; ++i, open()) {
    for (const char* gone : {"orchid", "violet", "uploads/1.jpg"}) {
      EXPECT_THAT(file(), ::testing::Not(HasSubstr(gone)));
    }
    EXPECT_TRUE(log_->find(photo(1))->removed);
    EXPECT_EQ(log_->find(photo(2))->top.at(0).name(), "rose");
    EXPECT_THAT(outbox(), IsEmpty());
  }
  log_->commit({labelled(3, 1, "rose")}).or_throw();
  EXPECT_THAT(outbox(), ElementsAre(5U));
}

TEST_F(UploadLogTest, AFullDiskLeavesWhatWasThereAndTakesTheNextWhenThereIsRoom) {
  log_->commit({labelled(1, 1, "rose")}).or_throw();
  fs_.set_capacity(static_cast<int64_t>(file().size()) + 20);
  EXPECT_EQ(log_->commit({labelled(2, 1, "rose")}).code(), Code::kNoSpace);
  fs_.set_capacity(1 << 20);
  EXPECT_FALSE(log_->find(photo(2)));
  log_->commit({labelled(3, 1, "rose")}).or_throw();
  open();
  EXPECT_FALSE(log_->find(photo(2)));
  EXPECT_TRUE(log_->find(photo(3)));
}

TEST_F(UploadLogTest, AnotherFileIsRefused) {
  log_.reset();
  publish(fs_, "uploads/log", "somebody's notes").or_throw();
  EXPECT_EQ(UploadLog::open(fs_, "uploads").status().code(), Code::kCorrupt);
}

TEST_F(UploadLogTest, CommitsOfManyThreadsAreAllThere) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) log_->commit({labelled(100 * t + i, 1, "rose")}).or_throw();
    });
  }
  log_->compact().or_throw();
  for (std::thread& t : threads) t.join();
  open();
  EXPECT_EQ(log_->counts().photos, 400);
  EXPECT_EQ(outbox().size(), 400U);
}

// Its first line too is there as a whole or not at all.
TEST(UploadLogCrash, CanBeOpenedWhereverThePowerFailedWhenItWasMade) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    bool made = false;
    for (int64_t n = 1; !made; ++n) {
      MemoryFs fs;
      fs.die_in_call(n);
      try {
        made = UploadLog::open(fs, "uploads").ok();
      } catch (const FsyncFailed&) {
      }
      Rng rng(seed * 100 + static_cast<uint64_t>(n), "crash");
      fs.crash(rng);
      const auto log = UploadLog::open(fs, "uploads");
      ASSERT_TRUE(log.ok()) << log.status().message() << ", seed " << seed << ", call " << n;
      ASSERT_LT(n, 20);
    }
  }
}

// Everything a store does with its log, ended by a power cut in each call to the disk in turn.
TEST(UploadLogCrash, LosesNothingThatWasCommittedWhereverThePowerFails) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (int64_t n = 1;; ++n) {
      MemoryFs fs;
      fs.die_in_call(n);
      std::set<int> promised, tried;
      bool ended = false;
      try {
        auto log = UploadLog::open(fs, "uploads").or_throw();
        for (int i = 0; i < 6; ++i) {
          tried.insert(i);
          log->commit({labelled(i, 1, "rose")}).or_throw();
          promised.insert(i);
          if (i == 2) log->acknowledged(2);
          if (i == 3) log->compact().or_throw();
        }
        ended = true;
      } catch (const Error&) {
      }
      Rng rng(seed * 1000 + static_cast<uint64_t>(n), "crash");
      seed == 0 ? fs.crash() : fs.crash(rng);
      auto log = UploadLog::open(fs, "uploads").or_throw();
      for (int i = 0; i < 6; ++i) {
        const auto known = log->find(photo(i));
        EXPECT_TRUE(known || !promised.contains(i)) << "photo " << i << ", call " << n;
        EXPECT_TRUE(!known || tried.contains(i));
      }
      // What the Tuner has not heard is in the outbox, once; new lines come behind it.
      std::set<std::string> digests;
      uint64_t last = 0;
      log->commit({labelled(7, 1, "rose")}).or_throw();
      for (const UploadLog::Line& l : log->after(0, 1 << 20)) {
        wire::Upload line;
        ASSERT_TRUE(line.ParseFromString(l.bytes));
        EXPECT_TRUE(digests.insert(line.digest()).second);
        EXPECT_GT(l.sequence, last);
        last = l.sequence;
      }
      for (const int i : promised) {
        EXPECT_TRUE(digests.contains(bytes_of(photo(i))) || i < 2) << "photo " << i;
      }
      if (ended) break;
      ASSERT_LT(n, 200);
    }
  }
}

}  // namespace
}  // namespace ndtrain
