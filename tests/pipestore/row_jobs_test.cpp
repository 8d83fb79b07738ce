#include "ndp/pipestore/row_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "ndp/jobs/row_task.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/numbers.h"
#include "tests/pipestore/service_fixture.h"

namespace ndtrain::ndp {
namespace {

using RowJobsTest = testing::StoreServiceTest;
using testing::WelcomedStore;

// Rows of numbered photos: each says whose it is, and its place. What is called is written down.
struct Numbered final : RowProducer {
  struct Rows final : JobRows {
    Rows(Numbered& all, uint64_t id, std::shared_ptr<const StoreInventory> list)
        : of(all), job(id), photos(std::move(list)) {}
    RowDelivery::RowSize row() const override { return {8}; }
    Result<Made> make(std::span<const size_t> places) override {
      of.calls += "make" + std::to_string(job) + " ";
      if (of.away) return Status(Code::kUnavailable, "no bucket");
      Made made;
      for (const size_t place : places)
        made.rows.push_back(row_of(job, photos->photos[place].path));
      return made;
    }
    // Of every third one nothing can be said.
    Result<std::vector<std::optional<uint64_t>>> hashes(std::span<const size_t> places) override {
      of.calls += "hash" + std::to_string(places.size()) + " ";
      if (of.away) return Status(Code::kUnavailable, "no bucket");
      std::vector<std::optional<uint64_t>> all;
      for (const size_t place : places) {
        const uint64_t hash = std::stoull(photos->photos[place].path) << 40 | 1;
        all.push_back(place % 3 == 2 ? std::nullopt : std::optional(hash));
      }
      return all;
    }
    Numbered& of;
    uint64_t job;
    std::shared_ptr<const StoreInventory> photos;
  };
  explicit Numbered(uint64_t n) : size(n) {}
  static std::string row_of(uint64_t job, const std::string& path) {
    std::string row = std::to_string(job) + path;
    row.resize(8, ' ');
    return row;
  }
  uint64_t photos() const override { return size; }
  Result<StoreInventory> scan() override {
    calls += "scan ";
    if (away) return Status(Code::kUnavailable, "no bucket");
    StoreInventory all;
    for (uint64_t i = 0; i < size; ++i) {
      all.photos.push_back({.digest = sha256(std::to_string(i)), .path = std::to_string(i)});
    }
    return all;
  }
  Result<std::unique_ptr<JobRows>> open(const wire::Job& job,
                                        std::shared_ptr<const StoreInventory> list,
                                        const std::string&, const std::string&) override {
    calls += "open" + std::to_string(job.job()) + " ";
    away = away_when_open;
    return std::unique_ptr<JobRows>(std::make_unique<Rows>(*this, job.job(), std::move(list)));
  }
  uint64_t size;
  bool away = false, away_when_open = false;
  std::string calls;
};

wire::ToStore asks(uint64_t job, const std::string& model = "") {
  wire::ToStore m;
  m.set_term(1);
  m.mutable_job()->set_job(job);
  if (!model.empty()) m.mutable_job()->set_extractor(bytes_of(sha256(model)));
  return m;
}

// Photos `from` to `to`, each numbered as its place.
wire::ToStore wants(uint64_t job, uint64_t from, uint64_t to) {
  std::vector<uint64_t> all(to - from);
  std::iota(all.begin(), all.end(), from);
  wire::ToStore m;
  m.set_term(1);
  m.mutable_wanted()->set_job(job);
  m.mutable_wanted()->set_numbers(pack_numbers(all));
  m.mutable_wanted()->set_places(pack_numbers(all));
  return m;
}

// The first of a job's requests for its model asks for it whole.
TEST(RowJobs, ListsItsPhotosWhileTheModelOfTheJobIsOnItsWay) {
  Numbered producer(1);
  WelcomedStore store(producer);
  const std::string bytes = "an extractor";
  store.sent.clear();
  store.service.handle({store.link, asks(7, bytes)});
  ASSERT_EQ(store.sent.size(), 1U);
  EXPECT_TRUE(store.sent[0].has_model_wanted());
  store.lanes.run();
  EXPECT_EQ(producer.calls, "scan ");
  EXPECT_EQ(store.sent.size(), 1U) << "without a model there is nothing to say";

  // Another job, whose model does not come, lists them too: the first one's list is its own.
  store.service.handle({store.link, asks(8, "another")});
  store.lanes.run();
  wire::ToStore m;
  m.set_term(1);
  m.mutable_model_part()->set_sha256(bytes_of(sha256(bytes)));
  m.mutable_model_part()->set_total(bytes.size());
  m.mutable_model_part()->set_bytes(bytes);
  m.mutable_model_part()->set_checksum(xxh3(bytes.data(), bytes.size()));
  store.service.handle({store.link, m});
  store.lanes.run();
  EXPECT_EQ(producer.calls, "scan scan open7 ");
  EXPECT_TRUE(store.sent.back().has_inventory());
  EXPECT_EQ(store.sent.back().inventory().job(), 7U);
}

TEST(RowJobs, WaitForRoomForTheirModelAndGoOnByThemselves) {
  Numbered producer(1);
  WelcomedStore store(producer);
  const std::string bytes(1000, 'x');
  const auto give = [&] {
    wire::ToStore m;
    m.set_term(1);
    m.mutable_model_part()->set_sha256(bytes_of(sha256(bytes)));
    m.mutable_model_part()->set_total(bytes.size());
    const uint64_t offset = store.sent.back().model_wanted().offset();
    const std::string rest = bytes.substr(offset);
    m.mutable_model_part()->set_offset(offset);
    m.mutable_model_part()->set_bytes(rest);
    m.mutable_model_part()->set_checksum(xxh3(rest.data(), rest.size()));
    store.service.handle({store.link, m});
    store.lanes.run();
  };
  store.sent.clear();
  store.service.handle({store.link, asks(7, bytes)});
  store.lanes.run();
  const Space space = store.fs.space("state").or_throw();
  store.fs.set_capacity(space.total - space.free + 100);
  for (int tries = 0; tries < 2; ++tries) {
    ASSERT_EQ(store.sent.size(), 1U);
    ASSERT_TRUE(store.sent[0].has_model_wanted()) << "it is not tried again";
    give();
    store.service.tick();
    EXPECT_EQ(store.sent.size(), 1U) << "refused, or asked for again at once";
    store.sent.clear();
    store.clock.advance(RowJobs::kRetry);
    store.service.tick();
  }
  EXPECT_EQ(store.service.jobs(), 1U);
  store.fs.set_capacity(int64_t{1} << 40);
  give();
  EXPECT_TRUE(store.sent.back().has_inventory());
}

TEST(RowJobs, WaitForPhotosThatAreAwayAndGoOnByThemselves) {
  Numbered producer(3 * kMostRowTask);
  WelcomedStore store(producer);
  const auto pass = [&](RowJobs::Time time) {
    store.clock.advance(time);
    store.service.tick();
    store.lanes.run();
  };
  producer.away = true;
  store.sent.clear();
  store.service.handle({store.link, asks(7)});
  store.lanes.run();
  pass(RowJobs::kAway / 2);
  EXPECT_EQ(producer.calls, "scan ");
  pass(RowJobs::kAway / 2);
  EXPECT_EQ(producer.calls, "scan scan ");
  EXPECT_TRUE(store.sent.empty());
  producer.away = false;
  pass(RowJobs::kAway);
  EXPECT_EQ(producer.calls, "scan scan scan open7 ");
  ASSERT_TRUE(store.sent.back().has_inventory());

  producer.away = true;
  producer.calls.clear();
  store.sent.clear();
  store.service.handle({store.link, wants(7, 0, 3 * kMostRowTask)});
  store.lanes.run();
  pass(RowJobs::kAway);
  EXPECT_EQ(producer.calls, "make7 make7 make7 make7 ");
  EXPECT_TRUE(store.sent.empty()) << "photos that are away are not bad, and the job is not refused";
  producer.away = false;
  pass(RowJobs::kAway);
  std::string rows, expected;
  for (const wire::FromStore& sent : store.sent) rows += sent.rows().rows();
  for (size_t i = 0; i < 3 * kMostRowTask; ++i) {
    expected += Numbered::row_of(7, std::to_string(i));
  }
  EXPECT_EQ(rows, expected);
}

// A part at a time, so that other jobs get on; nothing is told before all are there.
TEST(RowJobs, SayWhatPhotosLookLikeWhereTheyAreAsked) {
  const size_t n = 2 * RowJobs::kHashes + 7;
  Numbered producer(n);
  WelcomedStore store(producer);
  wire::ToStore ask = asks(7);
  ask.mutable_job()->set_with_hashes(true);
  store.sent.clear();
  store.service.handle({store.link, ask});
  producer.away_when_open = true;
  store.lanes.run();
  EXPECT_EQ(producer.calls, "scan open7 hash64 ");
  store.clock.advance(RowJobs::kAway);
  store.service.tick();
  store.lanes.run();
  producer.away = producer.away_when_open = false;
  EXPECT_TRUE(store.sent.empty()) << "photos that are away are waited for";
  store.clock.advance(RowJobs::kAway);
  store.service.tick();
  store.lanes.run();
  EXPECT_EQ(producer.calls, "scan open7 hash64 hash64 hash64 hash64 hash7 ");
  ASSERT_EQ(store.sent.size(), 1U);
  const wire::Inventory& said = store.sent[0].inventory();
  ASSERT_EQ(said.hashed().size(), n);
  ASSERT_EQ(said.hashes().size(), n * sizeof(uint64_t));
  for (size_t i = 0; i < n; ++i) {
    EXPECT_EQ(said.hashed()[i], i % 3 == 2 ? 0 : 1);
    uint64_t hash = 0;
    std::memcpy(&hash, said.hashes().data() + i * sizeof hash, sizeof hash);
    EXPECT_EQ(hash, i % 3 == 2 ? 0 : i << 40 | 1);
  }
  store.sent.clear();
  store.service.handle({store.link, wants(7, 0, 1)});
  store.lanes.run();
  EXPECT_EQ(store.sent.at(0).rows().rows(), Numbered::row_of(7, "0"));

  producer.calls.clear();
  store.service.handle({store.link, asks(8)});
  store.lanes.run();
  EXPECT_EQ(producer.calls, "scan open8 ");
  EXPECT_TRUE(store.sent.back().inventory().hashed().empty());
}

// Of a large job and a small one, the small one does not wait for the end of the large one; each
// has the rows of the photos that it was told of.
TEST(RowJobs, TakeTurnsBatchByBatch) {
  Numbered producer(20 * kMostRowTask);
  WelcomedStore store(producer);
  store.service.handle({store.link, asks(7)});
  store.service.handle({store.link, asks(8)});
  store.lanes.run();
  producer.calls.clear();
  store.sent.clear();
  store.service.handle({store.link, wants(7, 0, 20 * kMostRowTask)});
  producer.size = 1;  // what a third job lists changes nothing for them
  store.service.handle({store.link, asks(9)});
  store.service.handle({store.link, wants(8, 0, 3 * kMostRowTask)});
  store.lanes.run();
  EXPECT_TRUE(producer.calls.starts_with(
      "make7 make7 scan make8 make8 make7 make7 open9 make8 make8 make7 make7 "))
      << producer.calls;
  std::map<uint64_t, std::string> rows;
  for (const wire::FromStore& sent : store.sent) rows[sent.rows().job()] += sent.rows().rows();
  for (const auto& [job, batches] : std::map<uint64_t, size_t>{{7, 20}, {8, 3}}) {
    std::string expected;
    for (size_t i = 0; i < batches * kMostRowTask; ++i) {
      expected += Numbered::row_of(job, std::to_string(i));
    }
    EXPECT_EQ(rows[job], expected) << job;
  }
}

// The link has something to carry while the last photos are worked on.
TEST(RowJobs, EndARunWithEverSmallerTasks) {
  Numbered producer(600);
  WelcomedStore store(producer);
  store.service.handle({store.link, asks(7)});
  store.lanes.run();
  store.sent.clear();
  store.service.handle({store.link, wants(7, 0, 600)});
  store.lanes.run();
  std::vector<size_t> photos;
  for (const wire::FromStore& sent : store.sent) {
    if (sent.has_rows()) photos.push_back(unpack_numbers(sent.rows().numbers(), 600, 600)->size());
  }
  EXPECT_THAT(photos, ::testing::ElementsAre(32, 32, 134, 100, 75, 56, 42, 32, 32, 32, 32, 1));
}

TEST_F(RowJobsTest, AreNoMoreAtOnceThanThereMayBe) {
  connect();
  for (uint64_t job = 1; job <= RowJobs::kMost; ++job) service_.handle({link_, asks(job)});
  lanes_.run();
  sent_.clear();
  service_.handle({link_, asks(RowJobs::kMost + 1)});
  lanes_.run();
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].refused().job(), RowJobs::kMost + 1);
  EXPECT_THAT(sent_[0].refused().reason(), ::testing::HasSubstr("16 jobs at once"));
  EXPECT_EQ(service_.jobs(), RowJobs::kMost);
  service_.handle({link_, asks(1)});
  EXPECT_EQ(service_.jobs(), RowJobs::kMost) << "asked for again, it is no other";
}

// It was cancelled, or paused: the machine is wanted for something else.
TEST_F(RowJobsTest, WhatWasMadeReadyForAJobGoesWhenItEnds) {
  connect();
  service_.handle({link_, asks(7)});
  service_.handle({link_, asks(8)});
  lanes_.run();
  EXPECT_EQ(service_.jobs(), 2U);
  EXPECT_EQ(producer_.opened, (std::set<uint64_t>{7, 8}));
  wire::ToStore m;
  m.set_term(1);
  m.mutable_job_end()->set_job(7);
  service_.handle({link_, m});
  EXPECT_EQ(service_.jobs(), 1U);
  EXPECT_EQ(producer_.given_up, 7U) << "what is under way goes on";
  EXPECT_EQ(producer_.opened, std::set<uint64_t>{8}) << "the other one stays";
  service_.handle({link_, LinkClosed{"gone"}});
  EXPECT_EQ(producer_.opened, std::set<uint64_t>()) << "the Tuner asks again";
}

TEST_F(RowJobsTest, WhatIsSaidOfAJobSaysWhichAskingItAnswers) {
  connect();
  for (const uint64_t serial : {3, 4}) {
    sent_.clear();
    wire::ToStore m;
    m.set_term(1);
    m.mutable_job()->set_job(7);
    m.mutable_job()->set_serial(serial);
    service_.handle({link_, m});
    lanes_.run();
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_TRUE(sent_[0].has_inventory());
    EXPECT_EQ(sent_[0].answers(), serial);
  }
  for (uint64_t job = 8; job <= 7 + RowJobs::kMost; ++job) {  // the last is one too many
    wire::ToStore m = asks(job);
    m.mutable_job()->set_serial(100 + job);
    service_.handle({link_, m});
  }
  ASSERT_TRUE(sent_.back().has_refused());
  EXPECT_EQ(sent_.back().answers(), 107 + RowJobs::kMost);
}

// One photo, of which a row fits no message.
struct LargePhoto final : RowProducer {
  struct Rows final : JobRows {
    RowDelivery::RowSize row() const override { return {.bytes = kWholeRow + 1, .varies = true}; }
    Result<Made> make(std::span<const size_t>) override {
      return Made{.rows = {std::string(kWholeRow + 1, 'x')}, .bad = {}};
    }
  };
  uint64_t photos() const override { return 1; }
  Result<StoreInventory> scan() override {
    return StoreInventory{.photos = {{.digest = sha256("a photo"), .path = "a.jpg"}}};
  }
  Result<std::unique_ptr<JobRows>> open(const wire::Job&, std::shared_ptr<const StoreInventory>,
                                        const std::string&, const std::string&) override {
    return std::unique_ptr<JobRows>(std::make_unique<Rows>());
  }
};

TEST(RowJobs, PiecesAreSentToTunersThatKnowOfThemAndOthersAreToldWhyNot) {
  for (const uint32_t protocol : kProtocols) {
    LargePhoto producer;
    WelcomedStore store(producer, protocol);
    wire::ToStore m;
    m.set_term(1);
    m.mutable_job()->set_job(1);
    m.mutable_job()->set_rows(wire::Job::FILES);
    store.service.handle({store.link, m});
    store.lanes.run();
    m.mutable_wanted()->set_job(1);
    m.mutable_wanted()->set_numbers(pack_numbers(std::vector<uint64_t>{0}));
    m.mutable_wanted()->set_places(pack_numbers(std::vector<uint64_t>{0}));
    store.sent.clear();
    store.service.handle({store.link, m});
    store.lanes.run();
    if (protocol >= kSpeaksOfPieces) {
      ASSERT_EQ(store.sent.size(), kWholeRow / kRowPiece + 2);
      EXPECT_EQ(store.sent[0].rows().lengths(0), kWholeRow + 1);
      EXPECT_TRUE(store.sent.back().has_run_done());
    } else {
      ASSERT_EQ(store.sent.size(), 1U);
      EXPECT_TRUE(store.sent[0].refused().reason().ends_with("upgrade it"))
          << store.sent[0].DebugString();
    }
  }
}

}  // namespace
}  // namespace ndtrain::ndp
