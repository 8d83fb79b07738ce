// A whole Tuner relabels the photos of a store, and each of its operations goes wrong in every way:
// of the files of its state, or of those of the label database. Each photo has the label of the
// version in force, once; what was acknowledged is asked for no more.
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/onnx/export.h"
#include "models/zoo.h"
#include "ndp/labels/top_k_row.h"
#include "tests/faults/role_sweep.h"
#include "tests/faults/tuner_life.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/temporary_directory.h"
#include "tuner/work/default_job_factory.h"

namespace ndtrain::faults {
namespace {

using support::FaultyVfs;

const std::vector<std::string> kClassNames = {"cat", "dog"};

// Never destroyed: backends stay loaded.
Devices& cpu() {
  static Devices& all = *new Devices("cpu");
  return all;
}

uint32_t class_of(uint64_t number) { return number % 3 == 0 ? 1 : 0; }
std::string labelled_row(uint64_t number) {
  const uint32_t best = class_of(number);
  return top_k_row(std::vector<RankedClass>{{best, 0.75F}, {1 - best, 0.25F}});
}

class FaultyRelabel : public RoleSweep {
 protected:
  static void SetUpTestSuite() { FaultyVfs::install(); }
  void SetUp() override {
    std::filesystem::create_directory(files_.at("state"));
    static_cast<void>(open_label_db(url_).or_throw());
    std::filesystem::rename(files_.at("state"), files_.at("begun"));
  }

  void begin(Fs& disk) override {
    said_ = {};
    static_cast<void>(StateDirectory::open(disk, "state", "tuner").or_throw());
    const Digest file = ModelStore(disk, "state/models").add(role_.model).or_throw();
    Versions versions(disk, "state/versions.json");
    const PublishedModel model{
        .content = sha256("both"), .extractor = file, .head = file, .classes = kClassNames};
    static_cast<void>(versions.add(model, true).or_throw());
    std::filesystem::remove_all(files_.at("state"));
    std::filesystem::copy(files_.at("begun"), files_.at("state"));
  }

  void live(Fs& fs) override {
    TunerLife life(fs, role_);
    life.play(said_);
    const JobRecord& job = life.job(said_.job);
    EXPECT_TRUE(job.state != JobState::kFailed || !job.message.empty());
    rest();
  }

  void go_on(Fs& disk) override {
    const TunerLife::Said before = said_;
    {
      TunerLife life(disk, role_);
      life.play(said_);
      EXPECT_EQ(life.job(said_.job).state, JobState::kDone) << life.job(said_.job).message;
      for (const uint64_t n : before.rows) {
        EXPECT_FALSE(life.asked().contains(n)) << "the label of row " << n << " is lost";
      }
    }
    check_labels();
  }

 private:
  void check_labels() const {
    const auto db = open_label_db(url_).or_throw();
    const int64_t task = db->task(kDefaultTask).or_throw();
    const std::vector<int64_t> photos = db->photos_with(some_photos()).or_throw();
    for (size_t n = 0; n < photos.size(); ++n) {
      ASSERT_NE(photos[n], 0) << "photo " << n << " is in no collection";
      const std::vector<LabelRow> said = db->history(task, photos[n]).or_throw();
      ASSERT_EQ(said.size(), 1U) << "labels of photo " << n;
      EXPECT_EQ(said[0].class_name, kClassNames[class_of(n)]) << "photo " << n;
    }
  }

  const support::TemporaryDirectory files_;
  const std::string url_ = "sqlite:" + files_.at("state/labels.db");
  const TunerLife::Role role_{
      .model = export_model(build_model("tinynet", {.classes = 2, .img_size = 16})),
      .works =
          [this](Fs& fs, Clock& clock, ModelStore& models, const Versions& versions) {
            return std::make_unique<DefaultJobFactory>(JobContext{fs, clock, cpu(), models},
                                                       versions, url_);
          },
      .job = [](const Digest&) { return JobSpec{.kind = JobKind::kRelabel, .stores = 1}; },
      .row = labelled_row};
  TunerLife::Said said_;
};

TEST_P(FaultyRelabel, LabelsEachPhotoOnce) { sweep(10); }

INSTANTIATE_TEST_SUITE_P(Of, FaultyRelabel, ::testing::ValuesIn(kFaults), fault_name);

// The same, where the files of its state are as they should be.
class FaultyRelabelDatabase : public FaultyRelabel {
 protected:
  void arm(int64_t n) override { FaultyVfs::strike(n, GetParam()); }
  bool has_struck() override { return FaultyVfs::struck(); }
  void disarm() override { FaultyVfs::heal(); }
};

TEST_P(FaultyRelabelDatabase, LabelsEachPhotoOnce) { sweep(3); }

INSTANTIATE_TEST_SUITE_P(Of, FaultyRelabelDatabase, ::testing::ValuesIn(support::kDatabaseFaults),
                         fault_name);

}  // namespace
}  // namespace ndtrain::faults
