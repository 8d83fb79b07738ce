#include "ndp/pipestore/service.h"

#include <gtest/gtest.h>

#include "framework/core/hash.h"
#include "framework/testing/memory_fs.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/numbers.h"
#include "ndp/wire/protocol.h"
#include "tests/support/files.h"
#include "tests/support/waiting_lanes.h"

namespace ndtrain {
namespace {

using Sent = std::vector<wire::FromStore>;

class Link final : public LinkClient {
 public:
  explicit Link(Sent& sent) : sent_(sent) {}
  void send(wire::FromStore message) override { sent_.push_back(std::move(message)); }
  void close() override {}

 private:
  Sent& sent_;
};

struct NoPhotos final : RowMaker {
  uint64_t photos() const override { return 0; }
  Result<StoreInventory> scan() override { return StoreInventory(); }
  Result<RowWork::RowSize> open(const wire::Job&, const std::string&, const std::string&) override {
    return RowWork::RowSize{1};
  }
  Result<Made> make(std::span<const size_t>) override { return Made(); }
  void give_up(uint64_t job) override { given_up = job; }
  void close() override { ++closed; }
  uint64_t given_up = 0;
  int closed = 0;
};

// A PipeStore that a Tuner, a test, has welcomed.
struct WelcomedStore {
  explicit WelcomedStore(RowMaker& rows, uint32_t protocol = kProtocols[0]) : maker(rows) {
    service.tick();
    service.handle({link, LinkOpened{"the Tuner", ""}});
    service.handle({link, welcome(protocol)});
  }
  static wire::ToStore welcome(uint32_t protocol = kProtocols[0]) {
    wire::ToStore m;
    m.set_term(1);
    m.mutable_welcome()->set_protocol(protocol);
    m.mutable_welcome()->set_tuner("0123456789abcdef");
    m.mutable_welcome()->set_heartbeat_ms(600'000);
    m.mutable_welcome()->set_window(1 << 20);
    return m;
  }

  RowMaker& maker;
  MemoryFs fs;
  ManualClock clock;
  StateDirectory state = StateDirectory::open(fs, "state", "pipestore").or_throw();
  support::WaitingLanes lanes;
  Sent sent;
  LinkId link = 0;
  std::function<std::unique_ptr<LinkClient>(LinkId)> dial = [this](LinkId id) {
    link = id;
    return std::make_unique<Link>(sent);
  };
  PipeStoreService service{{fs, clock, state, lanes, maker, dial}, {}, 1};
};

// A PipeStore with a log of uploads and a Tuner that is a test.
class StoreUploads : public ::testing::Test {
 protected:
  void connect() {
    service_.tick();
    while (link_ == connected_) {
      clock_.advance(std::chrono::seconds(1));
      service_.tick();
    }
    connected_ = link_;
    service_.handle({link_, LinkOpened{"the Tuner", ""}});
    sent_.clear();
    service_.handle({link_, WelcomedStore::welcome()});
    service_.tick();
  }
  void upload(int n) {
    for (int i = 0; i < n; ++i) {
      wire::Upload line;
      line.set_digest(std::string(32, static_cast<char>(i)));
      line.set_path(std::string(500, 'x'));
      log_->commit({line}).or_throw();
    }
  }
  // The sequences that were sent since the last time.
  std::vector<uint64_t> sent() {
    std::vector<uint64_t> all;
    for (const wire::FromStore& m : std::exchange(sent_, {})) {
      EXPECT_EQ(m.term(), 1U);
      for (const std::string& bytes : m.uploads().lines()) {
        wire::Upload line;
        EXPECT_TRUE(line.ParseFromString(bytes));
        all.push_back(line.sequence());
      }
    }
    return all;
  }
  void kept(uint64_t sequence) {
    wire::ToStore m;
    m.set_term(1);
    m.mutable_uploads_kept()->set_sequence(sequence);
    service_.handle({link_, m});
  }

  wire::ToStore deletions(int from, int to) {
    wire::ToStore m;
    m.set_term(1);
    for (int i = from; i < to; ++i) {
      m.mutable_deletions()->mutable_photos()->append(std::string(32, static_cast<char>(i)));
    }
    m.mutable_deletions()->set_count(static_cast<uint64_t>(to));
    m.mutable_deletions()->set_mark(static_cast<uint64_t>(100 + to));
    return m;
  }
  // Of the Hello with which it would begin its next session.
  std::pair<uint64_t, uint64_t> known_deletions() {
    service_.handle({link_, LinkClosed{"gone"}});
    sent_.clear();
    while (link_ == connected_) {
      clock_.advance(std::chrono::seconds(1));
      service_.tick();
    }
    service_.handle({link_, LinkOpened{"the Tuner", ""}});
    const wire::Hello hello = sent_.at(0).hello();
    service_.handle({link_, LinkClosed{"gone"}});
    return {hello.deletions(), hello.deletions_mark()};
  }

  MemoryFs fs_;
  ManualClock clock_;
  StateDirectory state_ = StateDirectory::open(fs_, "state", "pipestore").or_throw();
  support::WaitingLanes lanes_;
  NoPhotos maker_;
  Sent sent_;
  LinkId link_ = 0, connected_ = 0;
  uint64_t free_ = 1000;
  std::vector<std::string> tokens_;
  std::unique_ptr<UploadLog> log_ = UploadLog::open(fs_, "uploads").or_throw();
  PipeStoreService service_{
      {fs_,
       clock_,
       state_,
       lanes_,
       maker_,
       [this](LinkId id) {
         link_ = id;
         return std::make_unique<Link>(sent_);
       },
       log_.get(),
       [this] {
         wire::Space s;
         s.set_http(":8421");
         s.set_free(free_);
         return s;
       },
       {},
       apply_delta,
       [this](std::span<const Digest> photos) {
         if (full_) return Status(Code::kNoSpace, "full");
         forgotten_.insert(forgotten_.end(), photos.begin(), photos.end());
         return Status();
       },
       [this](const std::string& json, const std::string&) { tokens_.push_back(json); }},
      {},
      1};
  bool full_ = false;
  std::vector<Digest> forgotten_;
};

TEST_F(StoreUploads, AreSentInOrderAndOnceWhenTheTunerKeepsThem) {
  upload(3);
  connect();
  EXPECT_EQ(sent(), (std::vector<uint64_t>{1, 2, 3}));
  upload(1);
  service_.tick();
  EXPECT_EQ(sent(), (std::vector<uint64_t>{4}));
  kept(3);
  kept(4);
  service_.tick();
  EXPECT_EQ(sent(), (std::vector<uint64_t>{}));
  EXPECT_EQ(log_->counts().unacknowledged, 0);
}

TEST_F(StoreUploads, ThatWereNotAcknowledgedAreSentToTheNextSession) {
  upload(3);
  connect();
  kept(3);
  upload(2);
  service_.tick();
  EXPECT_EQ(sent().size(), 5U);
  service_.handle({link_, LinkClosed{"gone"}});
  connect();
  EXPECT_EQ(sent(), (std::vector<uint64_t>{4, 5}));
}

TEST_F(StoreUploads, NeverHaveMoreUnderWayThanTheWindow) {
  upload(5000);
  connect();
  std::vector<uint64_t> all = sent();
  EXPECT_LT(all.size(), 3000U);
  EXPECT_GT(all.size(), 1900U);
  while (all.size() < 5000) {
    const size_t before = all.size();
    kept(all.back());
    const std::vector<uint64_t> more = sent();
    all.insert(all.end(), more.begin(), more.end());
    ASSERT_GT(all.size(), before);
  }
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i + 1);
}

TEST_F(StoreUploads, TheTunerHearsWhereThereIsRoomAndWhenItChanges) {
  connect();
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].space().http(), ":8421");
  EXPECT_EQ(sent_[0].space().free(), 1000U);
  const auto look = [&](uint64_t free) {
    free_ = free;
    clock_.advance(std::chrono::seconds(11));
    service_.tick();
    return sent_.size();
  };
  EXPECT_EQ(look(999), 1U);
  EXPECT_EQ(look(900), 2U);
}

TEST(PipeStoreService, AVersionThatDidNotFitOnTheDiskIsTriedAgain) {
  NoPhotos maker;
  WelcomedStore store(maker);
  PipeStoreService& service = store.service;
  wire::ToStore m;
  m.set_term(1);

  store.fs.set_capacity(0);
  m.mutable_publish()->set_version(3);
  service.handle({store.link, m});
  EXPECT_EQ(service.in_force().version, 0U);

  store.fs.set_capacity(1 << 20);
  store.clock.advance(service.next() - store.clock.monotonic());
  service.tick();
  EXPECT_EQ(service.in_force().version, 3U);
  EXPECT_TRUE(store.sent.back().has_in_force());
}

// The first of a job's requests for its model asks for it whole.
TEST(PipeStoreService, ListsItsPhotosWhileTheModelOfTheJobIsOnItsWay) {
  struct Photos final : RowMaker {
    uint64_t photos() const override { return 1; }
    Result<StoreInventory> scan() override {
      calls += "scan ";
      return StoreInventory{{StorePhoto{.path = "x.jpg"}}, 0};
    }
    Result<RowWork::RowSize> open(const wire::Job& job, const std::string&,
                                  const std::string&) override {
      calls += "open" + std::to_string(job.job()) + " ";
      return RowWork::RowSize{1};
    }
    Result<Made> make(std::span<const size_t>) override { return Made(); }
    std::string calls;
  } maker;
  WelcomedStore store(maker);
  const std::string bytes = "an extractor";
  const Digest model = sha256(bytes);
  wire::ToStore m;
  m.set_term(1);
  m.mutable_job()->set_job(7);
  m.mutable_job()->set_extractor(bytes_of(model));
  store.sent.clear();
  store.service.handle({store.link, m});
  ASSERT_EQ(store.sent.size(), 1U);
  EXPECT_TRUE(store.sent[0].has_model_wanted());
  store.lanes.run();
  EXPECT_EQ(maker.calls, "scan ");
  EXPECT_EQ(store.sent.size(), 1U) << "without a model there is nothing to say";

  // Another job lists them too, and the first one's places would be those of its list.
  wire::ToStore other;
  other.set_term(1);
  other.mutable_job()->set_job(8);
  other.mutable_job()->set_extractor(bytes_of(sha256("another")));
  store.service.handle({store.link, other});
  store.lanes.run();
  m.mutable_model_part()->set_sha256(bytes_of(model));
  m.mutable_model_part()->set_total(bytes.size());
  m.mutable_model_part()->set_bytes(bytes);
  m.mutable_model_part()->set_checksum(xxh3(bytes.data(), bytes.size()));
  store.service.handle({store.link, m});
  store.lanes.run();
  EXPECT_EQ(maker.calls, "scan scan scan open7 ");
  EXPECT_TRUE(store.sent.back().has_inventory());
  EXPECT_EQ(store.sent.back().inventory().job(), 7U);
}

TEST_F(StoreUploads, TheTunersTokensAreTakenWholeOrNotAtAll) {
  connect();
  wire::ToStore m;
  m.set_term(1);
  m.mutable_tokens()->set_json("list");
  m.mutable_tokens()->set_checksum(xxh3("list", 4));
  service_.handle({link_, m});
  EXPECT_EQ(tokens_, std::vector<std::string>{"list"});
  m.mutable_tokens()->set_json("lost");
  service_.handle({link_, m});
  EXPECT_EQ(tokens_.size(), 1U);
  EXPECT_FALSE(service_.connected());
}

// It was cancelled, or paused: the machine is wanted for something else.
TEST_F(StoreUploads, WhatWasMadeReadyForAJobGoesWhenItEnds) {
  connect();
  wire::ToStore m;
  m.set_term(1);
  m.mutable_job()->set_job(7);
  service_.handle({link_, m});
  lanes_.run();
  EXPECT_EQ(service_.jobs(), 1U);
  m.mutable_job_end()->set_job(7);
  service_.handle({link_, m});
  EXPECT_EQ(service_.jobs(), 0U);
  EXPECT_EQ(maker_.given_up, 7U) << "what is under way goes on";
  lanes_.run();
  EXPECT_EQ(maker_.closed, 1);
  service_.handle({link_, m});
  m.mutable_job()->set_job(7);
  service_.handle({link_, m});
  m.mutable_job()->set_job(8);
  service_.handle({link_, m});
  m.mutable_job_end()->set_job(7);
  service_.handle({link_, m});
  lanes_.run();
  EXPECT_EQ(maker_.closed, 1) << "another job has begun";
}

TEST_F(StoreUploads, WhatIsSaidOfAJobSaysWhichAskingItAnswers) {
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
  wire::ToStore m;
  m.set_term(1);
  m.mutable_wanted()->set_job(7);
  m.mutable_wanted()->set_numbers("\1");  // at no place: it refuses
  service_.handle({link_, m});
  ASSERT_TRUE(sent_.back().has_refused());
  EXPECT_EQ(sent_.back().answers(), 4U);
}

TEST_F(StoreUploads, DeletionsAreAnsweredWhenNothingIsLeftAndNotHeardOfTwice) {
  connect();
  sent_.clear();
  service_.handle({link_, deletions(0, 3)});
  service_.handle({link_, deletions(3, 4)});
  EXPECT_TRUE(sent_.empty());
  lanes_.run();
  EXPECT_EQ(forgotten_.size(), 4U);
  ASSERT_EQ(sent_.size(), 2U);
  EXPECT_EQ(sent_[1].deleted().count(), 4U);
  EXPECT_EQ(known_deletions(), std::pair(uint64_t{4}, uint64_t{104}));
  EXPECT_EQ(fs_.read("state/deletions.json").or_throw(), "{\"count\":4,\"mark\":104}\n");
}

TEST_F(StoreUploads, DeletionsThatFailAreHeardOfAgainAndWhatCameAfterThemToo) {
  connect();
  full_ = true;
  service_.handle({link_, deletions(0, 3)});
  service_.handle({link_, deletions(3, 4)});
  lanes_.tasks.front()()();
  full_ = false;
  lanes_.tasks.pop_front();
  lanes_.run();
  EXPECT_FALSE(service_.connected()) << "the Tuner is to say it again";
  EXPECT_EQ(known_deletions(), std::pair(uint64_t{0}, uint64_t{0}));
}

// One photo, of which a row fits no message.
struct LargePhoto final : RowMaker {
  uint64_t photos() const override { return 1; }
  Result<StoreInventory> scan() override {
    return StoreInventory{.photos = {{.digest = sha256("a photo"), .path = "a.jpg"}}};
  }
  Result<RowWork::RowSize> open(const wire::Job&, const std::string&, const std::string&) override {
    return RowWork::RowSize{.bytes = kWholeRow + 1, .varies = true};
  }
  Result<Made> make(std::span<const size_t>) override {
    return Made{.rows = {std::string(kWholeRow + 1, 'x')}, .bad = {}};
  }
};

TEST(StoreRows, PiecesAreSentToTunersThatKnowOfThemAndOthersAreToldWhyNot) {
  for (const uint32_t protocol : kProtocols) {
    LargePhoto maker;
    WelcomedStore store(maker, protocol);
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

// What a store has been given, and how it answers what it is asked.
class DamagedModels : public ::testing::Test {
 protected:
  void damage() {
    const std::string path = store_.service.model_path(model_);
    std::string bytes = store_.fs.read(path).or_throw();
    bytes[bytes.size() / 2] ^= 1;
    support::write_file(store_.fs, path, bytes);
  }
  void give() {
    wire::ToStore m;
    m.set_term(1);
    m.mutable_model_part()->set_sha256(bytes_of(model_));
    m.mutable_model_part()->set_total(bytes_.size());
    m.mutable_model_part()->set_bytes(bytes_);
    m.mutable_model_part()->set_checksum(xxh3(bytes_.data(), bytes_.size()));
    store_.service.handle({store_.link, m});
    if (spoils_) damage();
    store_.lanes.run();
  }
  void publish_version(uint64_t version) {
    wire::ToStore m;
    m.set_term(1);
    m.mutable_publish()->set_version(version);
    m.mutable_publish()->set_extractor(bytes_of(model_));
    store_.service.handle({store_.link, m});
    store_.lanes.run();
  }
  void ask_for_job() {
    wire::ToStore m;
    m.set_term(1);
    m.mutable_job()->set_job(7);
    m.mutable_job()->set_extractor(bytes_of(model_));
    store_.service.handle({store_.link, m});
    store_.lanes.run();
  }
  bool wanted() const { return store_.sent.back().has_model_wanted(); }

  const std::string bytes_ = "an extractor of some bytes";
  const Digest model_ = sha256(bytes_);
  NoPhotos maker_;
  WelcomedStore store_{maker_};
  bool spoils_ = false;  // the disk, whatever comes
};

TEST_F(DamagedModels, AreFetchedAgainBeforeAJobUsesThem) {
  publish_version(1);
  give();
  ASSERT_EQ(store_.service.in_force().version, 1U);
  damage();
  ask_for_job();
  ASSERT_TRUE(wanted());
  give();
  EXPECT_TRUE(store_.sent.back().has_inventory()) << store_.sent.back().DebugString();
}

TEST_F(DamagedModels, AreFetchedAgainBeforeTheyAreInForceOnceMore) {
  publish_version(1);
  give();
  damage();
  publish_version(2);
  EXPECT_EQ(store_.service.in_force().version, 1U);
  ASSERT_TRUE(wanted());
  give();
  EXPECT_EQ(store_.service.in_force().version, 2U);
}

TEST_F(DamagedModels, AreNotInForceAfterTheNextStart) {
  publish_version(1);
  give();
  damage();
  const PipeStoreService again(
      {store_.fs, store_.clock, store_.state, store_.lanes, maker_, store_.dial}, {}, 1);
  EXPECT_EQ(again.in_force().version, 0U) << "the Tuner sends it again";
}

TEST_F(DamagedModels, OnADiskThatDamagesThemAgainAndAgainAreGivenUp) {
  publish_version(1);
  give();
  damage();
  ask_for_job();
  for (int i = 1; i < ModelFetch::kCorruptModels; ++i) {
    ASSERT_TRUE(wanted());
    spoils_ = true;
    give();
  }
  ASSERT_TRUE(store_.sent.back().has_refused()) << store_.sent.back().DebugString();
  EXPECT_NE(store_.sent.back().refused().reason().find("is damaged"), std::string::npos);
}

}  // namespace
}  // namespace ndtrain
