// A PipeStore's service with a Tuner that is a test.
#pragma once

#include <gtest/gtest.h>

#include <set>

#include "framework/core/hash.h"
#include "framework/testing/memory_fs.h"
#include "ndp/pipestore/service.h"
#include "ndp/wire/protocol.h"
#include "tests/support/waiting_lanes.h"

namespace ndtrain::testing {
using namespace ndp;

using Sent = std::vector<wire::FromStore>;

class Link final : public LinkClient {
 public:
  explicit Link(Sent& sent) : sent_(sent) {}
  void send(wire::FromStore message) override { sent_.push_back(std::move(message)); }
  void close() override {}

 private:
  Sent& sent_;
};

struct NoPhotos final : RowProducer {
  uint64_t photos() const override { return 0; }
  Result<StoreInventory> scan() override { return StoreInventory(); }
  Result<std::unique_ptr<JobRows>> open(const wire::Job& job, std::shared_ptr<const StoreInventory>,
                                        const std::string&, const std::string&) override {
    return std::unique_ptr<JobRows>(std::make_unique<NoRows>(*this, job.job()));
  }
  struct NoRows final : JobRows {
    NoRows(NoPhotos& of, uint64_t job) : of_(of), job_(job) { of_.opened.insert(job_); }
    ~NoRows() override { of_.opened.erase(job_); }
    RowDelivery::RowSize row() const override { return {1}; }
    Result<Made> make(std::span<const size_t>) override { return Made(); }
    void give_up() override { of_.given_up = job_; }
    NoPhotos& of_;
    const uint64_t job_;
  };
  uint64_t given_up = 0;
  std::set<uint64_t> opened;  // and not let go of
};

// A PipeStore that a Tuner, a test, has welcomed.
struct WelcomedStore {
  explicit WelcomedStore(RowProducer& rows, uint32_t protocol = kProtocols[0]) : producer(rows) {
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

  RowProducer& producer;
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
  PipeStoreService service{{fs, clock, state, lanes, producer, dial}, {}, 1};
};

// A PipeStore with a log of uploads and a Tuner that is a test.
class StoreServiceTest : public ::testing::Test {
 protected:
  void connect(const wire::ToStore& welcome = WelcomedStore::welcome()) {
    service_.tick();
    while (link_ == connected_) {
      clock_.advance(std::chrono::seconds(1));
      service_.tick();
    }
    connected_ = link_;
    service_.handle({link_, LinkOpened{"the Tuner", ""}});
    sent_.clear();
    service_.handle({link_, welcome});
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
  NoPhotos producer_;
  Sent sent_;
  LinkId link_ = 0, connected_ = 0;
  uint64_t free_ = 1000;
  std::vector<std::string> tokens_;
  std::unique_ptr<UploadLog> log_ = UploadLog::open(fs_, "uploads").or_throw();
  StoreTrash trash_{fs_, state_.file("trash.bin")};
  int restored_ = 0;  // how often photos came back
  PipeStoreService service_{
      {fs_,
       clock_,
       state_,
       lanes_,
       producer_,
       [this](LinkId id) {
         link_ = id;
         return std::make_unique<Link>(sent_);
       },
       StoreSession::kLastRetry,
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
       [this](const std::string& json, const std::string&) { tokens_.push_back(json); },
       &trash_,
       [this](bool back) { restored_ += back; }},
      {},
      1};
  bool full_ = false;
  std::vector<Digest> forgotten_;
};

}  // namespace ndtrain::testing
