// A whole PipeStore is given versions and uploads, and each of its file operations goes wrong in
// every way. What it has said to be in force is, and an upload that was answered is there once, and
// comes to the Tuner.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "ndp/wire/digests.h"
#include "tests/faults/role_sweep.h"
#include "tests/pipestore/service_fixture.h"

namespace ndtrain::faults {
using namespace ndp;

namespace {

constexpr uint64_t kVersions = 2;
constexpr int kUploads = 3;

std::string extractor_of(uint64_t version) {
  return std::string(200, static_cast<char>('a' + version));
}
Digest upload_of(int n) { return sha256("upload " + std::to_string(n)); }

// What others have heard.
struct Heard {
  uint64_t in_force = 0;
  std::set<int> answered;          // uploads
  std::map<Digest, int> at_tuner;  // how often, of each sequence once
  std::set<uint64_t> sequences;    // that the Tuner has kept
};

// One process, with a Tuner.
class StoreLife {
 public:
  explicit StoreLife(Fs& fs) : fs_(fs) {}

  void play(Heard& heard) {
    for (uint64_t version = heard.in_force + 1; version <= kVersions; ++version) {
      meet(heard);
      wire::ToStore m;
      m.mutable_publish()->set_version(version);
      m.mutable_publish()->set_extractor(bytes_of(sha256(extractor_of(version))));
      say(m);
      for (int round = 0; round < 5 && heard.in_force < version; ++round) go_on(heard);
    }
    for (int n = 0; n < kUploads; ++n) {
      if (heard.answered.contains(n) || log_->find(upload_of(n))) continue;
      wire::Upload line;
      line.set_digest(bytes_of(upload_of(n)));
      line.set_path("uploads/" + std::to_string(n) + ".jpg");
      if (log_->commit({line}).ok()) heard.answered.insert(n);
    }
    for (int round = 0; round < 5; ++round) go_on(heard);
  }

  uint64_t in_force() const { return service_.in_force().at("default").version; }
  bool has(int n) const {
    const auto known = log_->find(upload_of(n));
    return known && known->uploaded && !known->removed;
  }
  int64_t photos() const { return log_->counts().photos; }

 private:
  void say(wire::ToStore m) {
    m.set_term(1);
    service_.handle({link_, std::move(m)});
  }
  // A session, where there is none.
  void meet(Heard& heard) {
    service_.tick();
    if (link_ == met_) return;
    met_ = link_;
    service_.handle({link_, LinkOpened{"the Tuner", ""}});
    service_.handle({link_, testing::WelcomedStore::welcome()});
    listen(heard);
  }
  void go_on(Heard& heard) {
    lanes_.run();
    listen(heard);
    clock_.advance(RowJobs::kRetry + std::chrono::seconds(1));
    meet(heard);
    lanes_.run();
    listen(heard);
  }

  void listen(Heard& heard) {
    for (; heard_ < sent_.size(); ++heard_) {
      const wire::FromStore m = sent_[heard_];
      if (m.has_in_force()) heard.in_force = std::max(heard.in_force, m.in_force().version());
      if (m.has_model_wanted()) give(m.model_wanted());
      if (m.has_uploads()) keep(m.uploads(), heard);
    }
  }

  void give(const wire::ModelWanted& wanted) {
    for (uint64_t version = 1; version <= kVersions; ++version) {
      const std::string bytes = extractor_of(version);
      if (bytes_of(sha256(bytes)) != wanted.sha256()) continue;
      uint64_t at = wanted.offset();
      do {  // of one that is whole an empty part, as a Tuner does
        const std::string part = bytes.substr(at, 120);
        wire::ToStore m;
        m.mutable_model_part()->set_sha256(wanted.sha256());
        m.mutable_model_part()->set_offset(at);
        m.mutable_model_part()->set_total(bytes.size());
        m.mutable_model_part()->set_bytes(part);
        m.mutable_model_part()->set_checksum(xxh3(part.data(), part.size()));
        say(m);
        at += part.size();
      } while (at < bytes.size());
    }
  }

  void keep(const wire::Uploads& uploads, Heard& heard) {
    wire::ToStore m;
    for (const std::string& bytes : uploads.lines()) {
      wire::Upload line;
      ASSERT_TRUE(line.ParseFromString(bytes));
      if (heard.sequences.insert(line.sequence()).second) {
        ++heard.at_tuner[*digest_of(line.digest())];
      }
      m.mutable_uploads_kept()->set_sequence(line.sequence());
    }
    if (m.has_uploads_kept()) say(m);
  }

  Fs& fs_;
  ManualClock clock_;
  StateDirectory state_ = StateDirectory::open(fs_, "state", "pipestore").or_throw();
  const std::unique_ptr<UploadLog> log_ = UploadLog::open(fs_, "state/uploads").or_throw();
  support::WaitingLanes lanes_;
  testing::NoPhotos producer_;
  testing::Sent sent_;
  LinkId link_ = 0, met_ = 0;
  std::function<std::unique_ptr<LinkClient>(LinkId)> dial_ = [this](LinkId id) {
    link_ = id;
    return std::make_unique<testing::Link>(sent_);
  };
  PipeStoreService service_{{.fs = fs_,
                             .clock = clock_,
                             .state = state_,
                             .lanes = lanes_,
                             .producer = producer_,
                             .dial = dial_,
                             .uploads = log_.get()},
                            {},
                            1};
  size_t heard_ = 0;
};

class FaultyStore : public RoleSweep {
 protected:
  void begin(Fs&) override { heard_ = {}; }

  void live(Fs& fs) override {
    StoreLife life(fs);
    life.play(heard_);
    rest();
  }

  void go_on(Fs& disk) override {
    StoreLife life(disk);
    EXPECT_TRUE(lied() || life.in_force() >= heard_.in_force) << "a version is lost";
    if (lied()) heard_.in_force = 0;
    life.play(heard_);
    EXPECT_EQ(heard_.in_force, kVersions);
    EXPECT_TRUE(life.photos() == kUploads || (lied() && life.photos() < kUploads)) << life.photos();
    for (int upload = 0; upload < kUploads; ++upload) {
      EXPECT_TRUE(lied() || life.has(upload)) << "upload " << upload << " is lost";
      EXPECT_TRUE(lied() || heard_.at_tuner[upload_of(upload)] == 1) << "upload " << upload;
    }
  }

 private:
  Heard heard_;
};

TEST_P(FaultyStore, LosesNoVersionAndNoUpload) { sweep(5); }

INSTANTIATE_TEST_SUITE_P(Of, FaultyStore, ::testing::ValuesIn(kFaults), fault_name);

}  // namespace
}  // namespace ndtrain::faults
