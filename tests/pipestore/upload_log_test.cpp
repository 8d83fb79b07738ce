#include "ndp/pipestore/upload_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "framework/testing/fsync_throws.h"
#include "framework/testing/memory_fs.h"
#include "ndp/wire/digests.h"
#include "tests/support/files.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
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

// What a log has been asked to say of itself, but for where its lines are.
std::string told_by(UploadLog& log, int photos) {
  std::string all;
  for (int i = 0; i < photos; ++i) {
    all += std::to_string(i) + ":";
    if (const auto known = log.find(photo(i))) {
      all += known->path + "|" + std::to_string(known->version) + "|" + known->truth + "|" +
             std::to_string(known->removed) + std::to_string(known->time);
      for (const wire::TopClass& t : known->top) all += "|" + t.ShortDebugString();
    }
    all += "\n";
  }
  for (const UploadLog::Line& line : log.after(0, 1 << 20)) all += line.bytes + "\n";
  return all;
}

// A line that says the same in the format before.
std::string former(wire::Upload line, uint64_t sequence) {
  line.set_sequence(sequence);
  const std::string bytes = line.SerializeAsString();
  const uint64_t checksum = xxh3(bytes.data(), bytes.size());
  const auto size = static_cast<uint32_t>(bytes.size());
  std::string out(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  return out + bytes;
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
  // Of a closed log.
  void flip(size_t at, int bit) {
    std::string bytes = file();
    bytes.at(at) = static_cast<char>(bytes[at] ^ (1 << bit));
    support::write_file(fs_, "uploads/log", bytes);
  }

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

TEST_F(UploadLogTest, WhatIsUnacknowledgedIsSentAgainAsFarAsItCountsAlsoAfterARestart) {
  log_->commit({labelled(1, 1, "rose")}).or_throw();
  log_->commit({labelled(1, 2, "daisy")}).or_throw();  // replaces line 1
  log_->commit({truth(1, "tulip")}).or_throw();
  log_->commit({removed(2)}).or_throw();
  log_->acknowledged(4);
  log_->commit({labelled(3, 2, "rose")}).or_throw();
  log_->acknowledged(5);
  ASSERT_THAT(outbox(), IsEmpty());
  log_->unacknowledge().or_throw();
  EXPECT_THAT(outbox(), ElementsAre(2, 3, 4, 5));
  open();
  EXPECT_THAT(outbox(), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(log_->find(photo(1))->truth, "tulip");
  log_->commit({labelled(4, 2, "rose")}).or_throw();
  EXPECT_THAT(outbox(), ElementsAre(2, 3, 4, 5, 6)) << "no sequence is given out twice";
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

TEST_F(UploadLogTest, ADamagedLineIsLostAndNoOtherAndTheFileIsKept) {
  const support::TemporaryDirectory said;
  log::to_file(said.at("said"));
  for (int i = 1; i <= 5; ++i) log_->commit({labelled(i, 1, "rose")}).or_throw();
  log_.reset();
  flip(file().find("uploads/3.jpg"), 2);
  const std::string damaged = file();
  open();
  log::to_file("");
  EXPECT_THAT(outbox(), ElementsAre(1U, 2U, 4U, 5U));
  for (const int i : {1, 2, 4, 5}) EXPECT_EQ(log_->find(photo(i))->top.at(0).name(), "rose");
  EXPECT_FALSE(log_->find(photo(3)));
  EXPECT_EQ(fs_.read("uploads/log.damaged-1").or_throw(), damaged);
  const std::string text = real_fs().read(said.at("said")).or_throw();
  EXPECT_THAT(text, HasSubstr("behind line 2 of 1970-01-01 00:16:42 UTC, before line 4 of"));
  EXPECT_THAT(text, HasSubstr("is kept as uploads/log.damaged-1"));
  log_->commit({labelled(6, 1, "rose")}).or_throw();
  open();
  EXPECT_THAT(outbox(), ElementsAre(1U, 2U, 4U, 5U, 6U));
  EXPECT_FALSE(fs_.exists("uploads/log.damaged-2")) << "it is damaged no more";
}

TEST_F(UploadLogTest, AFlippedBitAnywhereIsSaidAndCostsOneLineAtMost) {
  log_->commit({labelled(0, 1, "rose"), about(1)}).or_throw();
  log_->commit({truth(0, "tulip")}).or_throw();
  log_->commit({labelled(2, 2, "daisy")}).or_throw();
  log_->commit({removed(3)}).or_throw();
  const std::string whole = told_by(*log_, 4);
  log_.reset();
  const std::string good = file();
  int lost = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    SCOPED_TRACE("byte " + std::to_string(at));
    MemoryFs fs;
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    support::write_file(fs, "uploads/log", bytes);
    auto log = UploadLog::open(fs, "uploads").or_throw();
    EXPECT_GE(log->after(0, 1 << 20).size(), 4U);
    const bool same = told_by(*log, 4) == whole;
    EXPECT_EQ(same, !fs.exists("uploads/log.damaged-1"));
    lost += !same;
  }
  EXPECT_EQ(lost, static_cast<int>(good.size()) - 48) << "all but the header, which is there twice";
}

// A line of an earlier program, which took fields of any length.
TEST_F(UploadLogTest, WhatLooksLikeARecordInALineIsNone) {
  wire::Upload forged = removed(1), line = labelled(2, 1, "rose"), last = labelled(3, 1, "rose");
  forged.set_sequence(99);
  line.set_extractor(upload_format::record(0, forged.SerializeAsString()));
  line.set_sequence(2);
  last.set_sequence(3);
  log_->commit({labelled(1, 1, "rose")}).or_throw();
  log_.reset();
  {
    const auto file = fs_.open("uploads/log", Fs::Mode::kAppend).or_throw();
    const uint64_t salt = upload_format::read_header(*file).or_throw().salt;
    const std::string records = upload_format::record(salt, line.SerializeAsString()) +
                                upload_format::record(salt, last.SerializeAsString());
    file->append(support::bytes_of(records)).or_throw();
  }
  flip(file().find("uploads/2.jpg"), 0);
  open();
  EXPECT_FALSE(log_->find(photo(1))->removed);
  EXPECT_THAT(outbox(), ElementsAre(1U, 3U));
}

TEST_F(UploadLogTest, ALineThatGoesBadWhileItIsOpenIsNeverReadAsAnother) {
  for (int i = 1; i <= 3; ++i) log_->commit({labelled(i, 1, "rose")}).or_throw();
  flip(file().find("uploads/2.jpg"), 1);
  EXPECT_THROW((void)log_->find(photo(2)), Error);
  EXPECT_TRUE(log_->counts().damaged);
  EXPECT_THAT(outbox(), ElementsAre(1U, 3U));
  log_->compact().or_throw();
  EXPECT_FALSE(log_->counts().damaged);
  EXPECT_FALSE(log_->find(photo(2)));
  EXPECT_TRUE(fs_.exists("uploads/log.damaged-1"));
  log_->commit({labelled(4, 1, "rose")}).or_throw();
  open();
  EXPECT_THAT(outbox(), ElementsAre(1U, 3U, 4U));
}

TEST_F(UploadLogTest, WithoutRoomToKeepADamagedFileNothingIsChanged) {
  for (int i = 1; i <= 3; ++i) log_->commit({labelled(i, 1, "rose")}).or_throw();
  log_.reset();
  flip(file().find("uploads/2.jpg"), 1);
  const std::string damaged = file();
  fs_.set_capacity(static_cast<int64_t>(damaged.size()) + 10);
  EXPECT_EQ(UploadLog::open(fs_, "uploads").status().code(), Code::kNoSpace);
  EXPECT_EQ(file(), damaged);
  fs_.set_capacity(1 << 20);
  open();
  EXPECT_THAT(outbox(), ElementsAre(1U, 3U));
}

TEST_F(UploadLogTest, OfTheFormatBeforeIsReadDamagedOrNot) {
  log_.reset();
  std::string bytes = "NDTUPL1\n";
  for (int i = 1; i <= 4; ++i) bytes += former(labelled(i, 1, "rose"), static_cast<uint64_t>(i));
  const size_t second = 8 + (bytes.size() - 8) / 4, length = second + 8;
  for (const bool damaged : {false, true}) {
    if (damaged) bytes[length] ^= 4;  // so that nothing says where the third begins
    support::write_file(fs_, "uploads/log", bytes);
    open();
    EXPECT_TRUE(log_->find(photo(1)) && log_->find(photo(3)) && log_->find(photo(4)));
    EXPECT_EQ(log_->find(photo(2)).has_value(), !damaged);
    EXPECT_EQ(fs_.exists("uploads/log.damaged-1"), damaged);
    log_->commit({labelled(5, 1, "rose")}).or_throw();
    open();
    EXPECT_EQ(outbox().back(), 5U);
    EXPECT_TRUE(file().starts_with("NDTUPL2\n"));
    log_.reset();
  }
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
  const FsyncThrows throws;
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
  const FsyncThrows throws;
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
      } catch (const FsyncFailed&) {
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

TEST(UploadLogOfTheFolder, TakesNoLineThatSaysNothingNewOrBringsADeletedPhotoBack) {
  MemoryFs fs;
  const auto log = UploadLog::open(fs, "u").or_throw();
  log->commit({labelled(1, 3, "rose"), removed(2), truth(3, "tulip")}).or_throw();
  log->commit_new({about(0), about(1), about(2), about(3)}).or_throw();
  log->commit_new({about(0), about(2)}).or_throw();
  EXPECT_EQ(log->find(photo(1))->version, 3U);
  EXPECT_TRUE(log->find(photo(2))->removed);
  EXPECT_EQ(log->unlabelled(std::nullopt, 9).size(), 2U);
  EXPECT_EQ(log->after(0, 1 << 20).size(), 5U);
  wire::Upload moved = labelled(1, 3, "rose");
  moved.set_path("elsewhere.jpg");
  log->commit_new({moved}).or_throw();
  EXPECT_EQ(log->find(photo(1))->path, "elsewhere.jpg");
}

// Also in one batch, whoever is first in it.
TEST(UploadLogOfTheFolder, LetsADeletionWinThatIsCommittedAtTheSameTime) {
  MemoryFs fs;
  const auto log = UploadLog::open(fs, "u").or_throw();
  constexpr int kPhotos = 50;
  std::vector<std::thread> threads;
  for (int i = 0; i < kPhotos; ++i) {
    threads.emplace_back([&log, i] { log->commit_new({about(i)}).or_throw(); });
    threads.emplace_back([&log, i] { log->commit({removed(i)}).or_throw(); });
  }
  for (std::thread& t : threads) t.join();
  for (int i = 0; i < kPhotos; ++i) EXPECT_TRUE(log->find(photo(i))->removed) << i;
}

}  // namespace
}  // namespace ndtrain::ndp
