// A whole Tuner does a job, and each of its file operations goes wrong in every way. The job that
// was accepted is there, rows that were acknowledged are asked for no more, and one version is
// published.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/faults/role_sweep.h"
#include "tests/faults/tuner_life.h"
#include "tuner/ingest/spool.h"

namespace ndtrain::faults {
namespace {

constexpr size_t kRow = 4;

std::string spooled_row(uint64_t number) {
  return std::string(kRow, static_cast<char>('a' + number));
}

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
      if (row != spooled_row(n)) throw Error("row ", n, " is another");
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
  SpooledWorks(Fs& f, const Clock& c) : fs(f), clock(c) {}
  std::unique_ptr<JobWork> make(uint64_t, const JobSpec& spec, const std::string& directory,
                                Progress&) override {
    return std::make_unique<SpooledWork>(fs, clock, directory, digest_from_hex(spec.model));
  }
  Fs& fs;
  const Clock& clock;
};

class FaultyTuner : public RoleSweep {
 protected:
  void begin(Fs&) override { said_ = {}; }

  void live(Fs& fs) override {
    TunerLife life(fs, role_);
    life.play(said_);
    const JobRecord& job = life.job(said_.job);
    EXPECT_TRUE(job.state != JobState::kFailed || !job.message.empty());
    rest();
  }

  void go_on(Fs& disk) override {
    const TunerLife::Said before = said_;
    TunerLife life(disk, role_);
    life.play(said_);
    EXPECT_EQ(life.job(said_.job).state, JobState::kDone) << life.job(said_.job).message;
    const auto published = std::ranges::count(life.versions(), said_.job, &PublishedModel::job);
    EXPECT_TRUE(published == 1 || (lied() && published == 0)) << published;
    for (const uint64_t n : before.rows) {
      EXPECT_TRUE(lied() || !life.asked().contains(n)) << "row " << n << " is lost";
    }
  }

 private:
  const TunerLife::Role role_{
      .model = "a model",
      .works = [](Fs& fs, Clock& clock, ModelStore&,
                  const Versions&) { return std::make_unique<SpooledWorks>(fs, clock); },
      .job = [](const Digest& model) { return JobSpec{.model = to_hex(model), .stores = 1}; },
      .row = spooled_row};
  TunerLife::Said said_;
};

TEST_P(FaultyTuner, DoesTheJobOnceAndLosesNoRow) { sweep(10); }

INSTANTIATE_TEST_SUITE_P(Of, FaultyTuner, ::testing::ValuesIn(kFaults), fault_name);

}  // namespace
}  // namespace ndtrain::faults
