// A whole Tuner does a job, and each of its file operations goes wrong in every way: it says so and
// goes on, or ends, and the next one does the rest. The job that was accepted is there, rows that
// were acknowledged are asked for no more, and one version is published.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>

#include "framework/core/log.h"
#include "framework/testing/faulty_fs.h"
#include "framework/testing/fsync_throws.h"
#include "framework/testing/memory_fs.h"
#include "ndp/wire/numbers.h"
#include "tests/tuner/service_fixture.h"
#include "tuner/ingest/spool.h"

namespace ndtrain::faults {
using namespace ndp;
using namespace tuner;

namespace {

constexpr size_t npos = std::string_view::npos;
constexpr size_t kPhotos = 6, kRow = 4;

const std::vector<Digest>& some_photos() {
  static const std::vector<Digest> all = [] {
    std::vector<Digest> photos;
    for (size_t i = 0; i < kPhotos; ++i) photos.push_back(sha256(std::to_string(i)));
    std::ranges::sort(photos);
    return photos;
  }();
  return all;
}
std::string row_of(uint64_t number) { return std::string(kRow, static_cast<char>('a' + number)); }

// Counts the rows in its spool, and publishes.
class SpooledWork final : public JobWork {
 public:
  SpooledWork(Fs& fs, const Clock& clock, const std::string& directory, const Digest& model)
      : spool_(fs, clock, join(directory, "spool"), sha256("rows"), 0), model_(model) {}
  RowRequest prepare() override { return {.row_bytes = kRow, .manifest = {.runs = 1}}; }
  RowSink& sink() override { return spool_; }
  void manifest(const Manifest& manifest, const std::vector<std::string>&) override {
    manifest_ = &manifest;
  }
  bool run(uint32_t) override { return true; }
  JobOutcome finish() override {
    for (uint64_t n = 0; n < manifest_->size(); ++n) {
      std::string row(kRow, '\0');
      spool_.read(manifest_->entry(n).digest, std::as_writable_bytes(std::span(row)));
      if (row != row_of(n)) throw Error("row ", n, " is another");
    }
    JobOutcome outcome{.result = R"({"rows":)" + std::to_string(manifest_->size()) + "}"};
    outcome.model = PublishedModel{.content = model_, .extractor = model_, .head = model_};
    return outcome;
  }

 private:
  Spool spool_;
  const Digest model_;
  const Manifest* manifest_ = nullptr;
};

struct SpooledWorks final : JobFactory {
  SpooledWorks(Fs& f, const Clock& c, const Digest& m) : fs(f), clock(c), model(m) {}
  std::unique_ptr<JobWork> make(uint64_t, const JobSpec&, const std::string& directory,
                                Progress&) override {
    return std::make_unique<SpooledWork>(fs, clock, directory, model);
  }
  Fs& fs;
  const Clock& clock;
  const Digest model;
};

// What it has said to others.
struct Said {
  uint64_t job = 0;         // that was accepted
  std::set<uint64_t> rows;  // numbers that were acknowledged
};

// One process, with a store that has its photos.
class TunerLife {
 public:
  explicit TunerLife(Fs& fs) : fs_(fs) {
    service_.handle({1, LinkOpened{"a host", ""}});
    wire::FromStore hello;
    hello.mutable_hello()->add_protocols(kProtocols[0]);
    hello.mutable_hello()->set_store("a");
    service_.handle({1, hello});
  }

  void play(Said& said) {
    if (said.job == 0) said.job = service_.submit({.model = to_hex(model_), .stores = 1});
    if (service_.job(said.job).state == JobState::kFailed) service_.resume(said.job);
    for (int round = 0; round < 20 && service_.job(said.job).open(); ++round) {
      lanes_.run();
      for (; answered_ < links_.sent.size(); ++answered_) {
        answer(wire::ToStore(links_.sent[answered_].second), said);
      }
      clock_.advance(std::chrono::seconds(11));
      service_.tick();
    }
    lanes_.run();
  }
  const JobRecord& job(uint64_t id) const { return service_.job(id); }
  std::vector<PublishedModel> versions() const { return versions_.all(); }
  const std::set<uint64_t>& asked() const { return asked_; }

 private:
  void say(wire::FromStore m) {
    m.set_term(me_.term);
    service_.handle({1, std::move(m)});
  }

  void answer(const wire::ToStore& m, Said& said) {
    if (m.has_job()) {
      wire::FromStore reply;
      wire::Inventory& i = *reply.mutable_inventory();
      i.set_job(m.job().job());
      i.add_names("cat");
      for (const Digest& d : some_photos()) {
        i.mutable_digests()->append(d.begin(), d.end());
        i.add_labels(1);
        i.mutable_sources()->push_back('\2');
      }
      i.set_last(true);
      say(reply);
    } else if (m.has_wanted()) {
      for (const uint64_t n : unpack_numbers(m.wanted().numbers(), kPhotos, kPhotos).or_throw()) {
        asked_.insert(n);
        send_row(m.wanted(), n);
      }
    } else if (m.has_ack()) {
      said.rows.insert(chunks_.at(m.ack().chunk()));
    }
  }

  void send_row(const wire::Wanted& wanted, uint64_t number) {
    wire::FromStore m;
    wire::Rows& rows = *m.mutable_rows();
    rows.set_job(wanted.job());
    rows.set_run(wanted.run());
    rows.set_chunk(chunks_.size() + 1);
    rows.set_numbers(pack_numbers(std::vector{number}));
    rows.set_rows(row_of(number));
    rows.set_checksum(xxh3(rows.rows().data(), rows.rows().size()));
    chunks_[rows.chunk()] = number;
    say(m);
  }

  Fs& fs_;
  ManualClock clock_;
  StateDirectory state_ = StateDirectory::open(fs_, "state", "tuner").or_throw();
  testing::Links links_;
  support::WaitingLanes lanes_;
  ModelStore models_{fs_, "state/models"};
  Versions versions_{fs_, "state/versions.json"};
  const Digest model_ = models_.add("a model").or_throw();
  SpooledWorks works_{fs_, clock_, model_};
  TunerIdentity me_ = state_.next_term(1).or_throw();
  TunerService service_{{fs_, clock_, state_, links_, lanes_, works_, models_, versions_}, me_};
  size_t answered_ = 0;
  std::set<uint64_t> asked_;
  std::map<uint64_t, uint64_t> chunks_;  // the photo of each
};

class FaultyTuner : public ::testing::TestWithParam<Fault> {
 protected:
  FaultyTuner() { log::set_level(log::Level::kOff); }

  // Whether the fault struck.
  bool strike(int64_t n, MemoryFs::Survives survives) {
    MemoryFs disk;
    Said said;
    bool struck = false;
    {
      FaultyFs fs(disk);
      fs.strike(n, GetParam());
      try {
        TunerLife life(fs);
        life.play(said);
        const JobRecord& job = life.job(said.job);
        EXPECT_TRUE(job.state != JobState::kFailed || !job.message.empty());
      } catch (const FsyncFailed&) {
      } catch (const ProcessEnded&) {
        EXPECT_EQ(GetParam(), Fault::kTornWrite);
      } catch (const Error& e) {  // it does not start, does not accept, or ends
        EXPECT_TRUE(is_lie(GetParam()) || std::string_view(e.what()).find("state") != npos)
            << e.what();
      }
      struck = fs.struck();
    }
    disk.crash(survives);
    go_on(disk, said);
    return struck;
  }

  void go_on(MemoryFs& disk, Said said) {
    const Said before = said;
    try {
      TunerLife life(disk);
      life.play(said);
      EXPECT_EQ(life.job(said.job).state, JobState::kDone) << life.job(said.job).message;
      const auto published = std::ranges::count(life.versions(), said.job, &PublishedModel::job);
      EXPECT_TRUE(published == 1 || (is_lie(GetParam()) && published == 0)) << published;
      for (const uint64_t n : before.rows) {
        EXPECT_TRUE(is_lie(GetParam()) || !life.asked().contains(n)) << "row " << n << " is lost";
      }
    } catch (const Error& e) {  // a disk that lied may cost the job, or a file, which is named
      if (!is_lie(GetParam())) ADD_FAILURE() << e.what();
    }
  }

  const FsyncThrows throws_;
};

TEST_P(FaultyTuner, DoesTheJobOnceAndLosesNoRow) {
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
  EXPECT_GT(most, 10);
}

INSTANTIATE_TEST_SUITE_P(Of, FaultyTuner, ::testing::ValuesIn(kFaults), [](const auto& fault) {
  std::string name = name_of(fault.param);
  std::ranges::replace(name, ' ', '_');
  return name;
});

}  // namespace
}  // namespace ndtrain::faults
