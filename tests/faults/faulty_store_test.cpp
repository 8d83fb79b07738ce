// A whole PipeStore is given versions and uploads, and each of its file operations goes wrong in
// every way: it says so and goes on, or ends, and the next one does the rest. What it has said to
// be in force is, and an upload that was answered is there once, and comes to the Tuner.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "framework/core/log.h"
#include "framework/testing/faulty_fs.h"
#include "framework/testing/fsync_throws.h"
#include "framework/testing/memory_fs.h"
#include "ndp/wire/digests.h"
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

class FaultyStore : public ::testing::TestWithParam<Fault> {
 protected:
  FaultyStore() { log::set_level(log::Level::kOff); }

  // Whether the fault struck.
  bool strike(int64_t n, MemoryFs::Survives survives) {
    MemoryFs disk;
    Heard heard;
    bool struck = false, ended = true;
    {
      FaultyFs fs(disk);
      fs.strike(n, GetParam());
      try {
        StoreLife life(fs);
        life.play(heard);
        struck = fs.struck();
        fs.heal();  // a destructor cannot end the process
        ended = false;
      } catch (const FsyncFailed&) {
        ended = true;
      } catch (const ProcessEnded&) {
        EXPECT_EQ(GetParam(), Fault::kTornWrite);
      } catch (const Error& e) {  // it does not start, or ends
        const bool named = std::string_view(e.what()).find("state") != std::string_view::npos;
        EXPECT_TRUE(named || is_lie(GetParam())) << e.what();
      }
      if (ended) struck = fs.struck();
    }
    disk.crash(survives);
    go_on(disk, heard);
    return struck;
  }

  void go_on(MemoryFs& disk, Heard heard) {
    const bool lied = is_lie(GetParam());
    try {
      StoreLife life(disk);
      EXPECT_TRUE(lied || life.in_force() >= heard.in_force) << "a version is lost";
      if (lied) heard.in_force = 0;
      life.play(heard);
      EXPECT_EQ(heard.in_force, kVersions);
      EXPECT_TRUE(life.photos() == kUploads || (lied && life.photos() < kUploads)) << life.photos();
      for (int upload = 0; upload < kUploads; ++upload) {
        EXPECT_TRUE(lied || life.has(upload)) << "upload " << upload << " is lost";
        EXPECT_TRUE(lied || heard.at_tuner[upload_of(upload)] == 1) << "upload " << upload;
      }
    } catch (const Error& e) {  // a disk that lied may cost a file, which is named
      if (!lied) ADD_FAILURE() << e.what();
    }
  }

  const FsyncThrows throws_;
};

TEST_P(FaultyStore, LosesNoVersionAndNoUpload) {
  int64_t most = 0;
  for (const auto survives : {MemoryFs::Survives::kNothing, MemoryFs::Survives::kAll}) {
    for (int64_t n = 1; n < 5000; ++n) {
      SCOPED_TRACE("operation " + std::to_string(n) + ": " + name_of(GetParam()) +
                   (survives == MemoryFs::Survives::kAll ? ", the machine does not end" : ""));
      if (!strike(n, survives)) {
        most = std::max(most, n - 1);
        break;
      }
      if (HasFailure()) return;
    }
  }
  std::printf("%s: %lld operations, each twice\n", name_of(GetParam()),
              static_cast<long long>(most));
  EXPECT_GT(most, 5);
}

INSTANTIATE_TEST_SUITE_P(Of, FaultyStore, ::testing::ValuesIn(kFaults), [](const auto& fault) {
  std::string name = name_of(fault.param);
  std::ranges::replace(name, ' ', '_');
  return name;
});

}  // namespace
}  // namespace ndtrain::faults
