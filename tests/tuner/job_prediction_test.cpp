#include "tuner/jobs/job_prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ndtrain::tuner {
namespace {

JobRecord job(uint64_t id, JobState state = JobState::kDone, const std::string& report = "") {
  JobRecord r;
  r.id = id;
  r.state = state;
  r.spec.model = std::string(64, static_cast<char>('0' + id));
  if (!report.empty()) r.result = R"({"report": )" + report + "}";
  return r;
}

class JobPrediction : public ::testing::Test {
 protected:
  JobPrediction() {
    put(job(1, JobState::kDone, R"({"photos": 10, "overall_s": 1})"));
    put(job(2, JobState::kDone,
            R"({"photos": 100, "overall_s": 50, "tuner_busy_s": 20, "row_bytes": 1000})"));
    put(job(3, JobState::kFailed, R"({"photos": 10, "overall_s": 7})"));
    put(job(4, JobState::kDone));  // it says nothing
  }
  void put(const JobRecord& r) { jobs_[r.id] = r; }
  nlohmann::json of(const JobRecord& r, uint64_t photos) const {
    return nlohmann::json::parse(prediction_of(r, photos, jobs_));
  }

  std::map<uint64_t, JobRecord> jobs_;
};

TEST_F(JobPrediction, IsWhatTheLastJobLikeItTookPhotoForPhoto) {
  EXPECT_EQ(
      of(job(5), 300),
      nlohmann::json(
          {{"by", "job 2"}, {"overall_s", 150.0}, {"tuner_busy_s", 60.0}, {"row_bytes", 3000.0}}));
}

TEST_F(JobPrediction, IsOfNoJobOfOtherSettings) {
  JobRecord longer = job(5);
  longer.spec.trainer.epochs += 1;
  EXPECT_EQ(of(longer, 300), nlohmann::json::object());
  JobRecord relabel = job(5);
  relabel.spec.kind = JobKind::kRelabel;
  EXPECT_EQ(of(relabel, 300), nlohmann::json::object());
  JobRecord seeded = job(5);
  seeded.spec.seed = 7;
  seeded.spec.stores = 2u;
  seeded.spec.promote = Promote::kNever;
  EXPECT_EQ(of(seeded, 300).at("by"), "job 2") << "these decide no time";
}

TEST_F(JobPrediction, IsOfItsProfileWhereItHasOne) {
  JobRecord planned = job(5);
  planned.spec.predicted = {{"overall_s", 3.5}};
  EXPECT_EQ(of(planned, 300), nlohmann::json({{"by", "its profile"}, {"overall_s", 3.5}}));
  const JobSpec again = parse_job_spec(planned.spec.text());
  EXPECT_EQ(again.predicted, planned.spec.predicted);
  planned.spec.predicted = {};
  EXPECT_EQ(of(planned, 300).at("by"), "job 2");
}

TEST_F(JobPrediction, ThatThereIsNotNamesWhatWouldGiveOne) {
  JobSpec spec = job(5).spec;
  EXPECT_THAT(why_unpredicted(spec), ::testing::HasSubstr("--profile auto measures it"));
  EXPECT_THAT(why_unpredicted(spec), ::testing::HasSubstr("this model, cut and batch"));
  spec.mode = JobMode::kTypical;
  EXPECT_THAT(why_unpredicted(spec), ::testing::HasSubstr("these settings"));
  spec.kind = JobKind::kRelabel;
  EXPECT_THAT(why_unpredicted(spec), ::testing::HasSubstr("no relabel with these settings"));
}

}  // namespace
}  // namespace ndtrain::tuner
