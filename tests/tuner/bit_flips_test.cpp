// What disks do to files that lie on them for years: one bit is another. What is read then is what
// was written, or it is said that something is damaged.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "framework/core/log.h"
#include "framework/core/rng.h"
#include "framework/testing/memory_fs.h"
#include "ndp/pipestore/upload_log.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/model_blobs.h"
#include "tests/support/files.h"
#include "tuner/jobs/job_files.h"
#include "tuner/models/model_store.h"
#include "tuner/models/versions.h"
#include "tuner/service/deletion_log.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr int kFlips = 100;

class BitFlips : public ::testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::kOff); }  // hundreds of files would say so
  void TearDown() override { log::set_level(log::Level::kInfo); }
};

// `f` for each of so many files that differ from `good` in one bit, on a disk of their own.
void flipped(const std::string& path, const std::string& good,
             const std::function<void(MemoryFs&)>& f) {
  Rng rng(22, path);
  for (int i = 0; i < kFlips; ++i) {
    const size_t at = rng.next_below(good.size());
    const int bit = static_cast<int>(rng.next_below(8));
    SCOPED_TRACE(path + ": bit " + std::to_string(bit) + " of byte " + std::to_string(at));
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
    MemoryFs fs;
    support::write_file(fs, path, bytes);
    f(fs);
  }
}

Digest photo(int i) { return sha256("photo " + std::to_string(i)); }

TEST_F(BitFlips, OfTheUploadLogCostTheirLineAtMostAndThatIsSaid) {
  constexpr int kPhotos = 40;
  MemoryFs fs;
  std::map<uint64_t, std::string> lines;
  {
    const auto log = UploadLog::open(fs, "uploads").or_throw();
    for (int i = 0; i < kPhotos; ++i) {
      wire::Upload line;
      line.set_digest(bytes_of(photo(i)));
      line.set_path("uploads/" + std::to_string(i) + ".jpg");
      line.set_time(1000 + i);
      if (i % 3 == 0) line.set_truth("rose");
      if (i % 7 == 5) line.set_removed(true);
      log->commit({line}).or_throw();
    }
    for (const auto& l : log->after(0, 1 << 20)) lines[l.sequence] = l.bytes;
  }
  flipped("uploads/log", fs.read("uploads/log").or_throw(), [&](MemoryFs& disk) {
    const auto log = UploadLog::open(disk, "uploads").or_throw();
    const auto left = log->after(0, 1 << 20);
    for (const auto& l : left) EXPECT_EQ(l.bytes, lines.at(l.sequence));
    EXPECT_GE(left.size(), lines.size() - 1);
    EXPECT_EQ(left.size() < lines.size(), disk.exists("uploads/log.damaged-1"));
  });
}

TEST_F(BitFlips, OfTheListOfDeletionsCostTheirEntryAtMost) {
  MemoryFs fs;
  fs.make_directories("state").or_throw();
  std::vector<Digest> photos;
  for (int i = 0; i < 12; ++i) photos.push_back(photo(i));
  DeletionLog good(fs, "state");
  good.add(photos).or_throw();
  int whole = 0;
  flipped("state/deletions", fs.read("state/deletions").or_throw(), [&](MemoryFs& disk) {
    try {
      const DeletionLog read(disk, "state");
      ASSERT_GE(read.size(), 11U) << "the last one is taken for an addition that was cut off";
      int other = 0;
      for (uint64_t n = 0; n < read.size(); ++n) {
        EXPECT_EQ(read.mark(n + 1), good.mark(n + 1));
        other += read.from(n)[0] != photos[n];
      }
      EXPECT_LE(other + 12 - static_cast<int>(read.size()), 1);
      whole += other == 0 && read.size() == 12;
    } catch (const Error&) {  // it does not begin as such a list does
    }
  });
  EXPECT_GT(whole, 0) << "a mark is put right by the next one";
}

TEST_F(BitFlips, OfModelsAreFoundBeforeTheyAreUsed) {
  Rng rng(1, "model");
  std::string model;
  for (int i = 0; i < 5000; ++i) model += static_cast<char>(rng.next_below(256));
  const Digest digest = sha256(model);
  flipped("models/" + to_hex(digest) + ".onnx", model, [&](MemoryFs& disk) {
    EXPECT_EQ(ModelBlobs(disk, "models").check(digest).code(), Code::kCorrupt);
    ModelStore store(disk, "models");
    EXPECT_EQ(store.read_all(digest).status().code(), Code::kCorrupt);
    EXPECT_THAT([&] { (void)store.load(digest); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr("is damaged")));
    EXPECT_EQ(store.add(model).or_throw(), digest);
    EXPECT_EQ(store.read_all(digest).or_throw(), model) << "it is put right";
  });
}

TEST_F(BitFlips, OfVersionsAreRefused) {
  const auto text_of_all = [](const Versions& versions) {
    std::string all;
    for (const PublishedModel& m : versions.all()) {
      all += std::to_string(m.version) + " " + std::to_string(m.parent) + to_hex(m.content) +
             to_hex(m.extractor) + to_hex(m.head) + std::to_string(m.created) + m.metrics +
             std::to_string(m.job) + to_hex(m.photos);
      for (const std::string& name : m.classes) all += "," + name;
    }
    for (const auto& [alias, version] : versions.aliases(kDefaultTask))
      all += alias + std::to_string(version);
    return all;
  };
  MemoryFs fs;
  std::string whole;
  {
    Versions versions(fs, "versions.json");
    for (int i = 1; i <= 5; ++i) {
      PublishedModel m{.content = sha256(std::to_string(i)),
                       .extractor = sha256("e"),
                       .head = sha256(std::to_string(-i)),
                       .classes = {"rose", "tulip"},
                       .created = 1700000000 + i,
                       .metrics = R"({"top1":0.5162})",
                       .job = static_cast<uint64_t>(i)};
      (void)versions.add(m, i < 4).or_throw();
    }
    whole = text_of_all(versions);
  }
  int refused = 0;
  flipped("versions.json", fs.read("versions.json").or_throw(), [&](MemoryFs& disk) {
    try {
      EXPECT_EQ(text_of_all(Versions(disk, "versions.json")), whole);
    } catch (const Error&) {
      ++refused;
    }
  });
  EXPECT_GT(refused, kFlips / 2);
}

TEST_F(BitFlips, OfAJobsFilesAreRefused) {
  MemoryFs fs;
  JobRecord record{.id = 7,
                   .spec = {.model = to_hex(sha256("model")), .stores = 3, .seed = 11},
                   .state = JobState::kQueued,
                   .submitted = 1700000000};
  JobFiles files(fs, "jobs/7");
  files.save(record).or_throw();
  const std::vector<uint64_t> absent = {17, 23, 4711};
  files.close_run(1, absent).or_throw();
  const std::string job = fs.read("jobs/7/job.json").or_throw();
  flipped("jobs/7/job.json", job, [&](MemoryFs& disk) {
    const Result<JobRecord> read = JobFiles(disk, "jobs/7").load();
    if (!read.ok()) {
      EXPECT_EQ(read.status().code(), Code::kCorrupt);
      return;
    }
    EXPECT_EQ(read->spec.text(), record.spec.text());
    EXPECT_EQ(read->state, record.state);
    EXPECT_EQ(read->submitted, record.submitted);
  });
  flipped("jobs/7/closed.json", fs.read("jobs/7/closed.json").or_throw(), [&](MemoryFs& disk) {
    const Result<JobFiles::Closed> read = JobFiles(disk, "jobs/7").closed();
    if (!read.ok()) {
      EXPECT_EQ(read.status().code(), Code::kCorrupt);
      return;
    }
    EXPECT_EQ(read->absent, absent);
    EXPECT_EQ(read->runs, std::vector<uint32_t>{1});
  });
  const std::vector<UnreadablePhoto> bad = {
      {.photo = sha256("photo"), .store = "attic", .path = "a\n.jpg", .why = "cut short"},
      {.store = "attic", .path = "words.jpg", .why = "no photo"}};
  files.save_quarantine(bad).or_throw();
  flipped("jobs/7/quarantine.json", fs.read("jobs/7/quarantine.json").or_throw(),
          [&](MemoryFs& disk) {
            const auto read = JobFiles(disk, "jobs/7").load_quarantine();
            if (!read.ok()) {
              EXPECT_EQ(read.status().code(), Code::kCorrupt);
              return;
            }
            ASSERT_EQ(read->size(), 2U);
            EXPECT_FALSE(read->at(1).photo);
            EXPECT_EQ(read->at(0).photo, bad[0].photo);
            EXPECT_EQ(read->at(0).path, R"(a\n.jpg)") << "plain text";
          });
}

}  // namespace
}  // namespace ndtrain::tuner
