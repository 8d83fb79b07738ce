// What becomes of a job's version.
#include <gmock/gmock.h>

#include "tests/tuner/given_work.h"
#include "tests/tuner/service_fixture.h"

namespace ndtrain {
namespace {

using testing::GivenWorks;
using ::testing::HasSubstr;
using testing::Links;
using testing::WaitingLanes;

class ServicePromotionTest : public ::testing::Test {
 protected:
  // One job after another; which version is in force when it has ended.
  uint64_t job(Promote promote, std::optional<uint64_t> instead_of) {
    works_.finish = [=, this] {
      const PublishedModel model{.extractor = model_, .head = model_};
      if (meanwhile_) meanwhile_();
      return JobOutcome{.model = model, .instead_of = instead_of};
    };
    last_ = service_.submit({.model = to_hex(model_), .promote = promote});
    lanes_.run();
    EXPECT_EQ(service_.job(last_).state, JobState::kDone) << service_.job(last_).message;
    return versions_.in_force() ? versions_.in_force()->version : 0;
  }
  std::string log() const {
    std::string all;
    for (const std::string& line : service_.log(last_)) all += line + "\n";
    return all;
  }

  MemoryFs fs_;
  ManualClock clock_;
  StateDirectory state_ = StateDirectory::open(fs_, "state", "tuner").or_throw();
  Links links_;
  WaitingLanes lanes_;
  GivenWorks works_;
  ModelStore models_{fs_, "state/models"};
  Versions versions_{fs_, "state/versions.json"};
  Digest model_ = models_.add("a model").or_throw();
  AuditLog audit_{fs_, clock_, "state"};
  TunerService service_{
      {fs_, clock_, state_, links_, lanes_, works_, models_, versions_, nullptr, &audit_},
      state_.next_term(1).or_throw()};
  std::function<void()> meanwhile_;
  uint64_t last_ = 0;
};

TEST_F(ServicePromotionTest, ARuleThatSaysNothingLeavesACandidate) {
  EXPECT_EQ(job(Promote::kRule, std::nullopt), 0U);
  EXPECT_EQ(versions_.aliases().at(kCandidate), 1U);
  EXPECT_THAT(log(), HasSubstr("published as version 1, a candidate"));
  EXPECT_THAT(service_.job(last_).result, HasSubstr("\"in_force\":false"));
  EXPECT_EQ(job(Promote::kNever, std::nullopt), 0U);
  EXPECT_EQ(job(Promote::kAlways, std::nullopt), 3U);
}

TEST_F(ServicePromotionTest, ARulesWordCountsForWhatItWasComparedWith) {
  EXPECT_EQ(job(Promote::kRule, 0), 1U) << "nothing was in force";
  EXPECT_EQ(job(Promote::kRule, 1), 2U);
  EXPECT_THAT(service_.job(last_).result, HasSubstr("\"in_force\":true"));
  meanwhile_ = [this] { service_.promote(1); };
  EXPECT_EQ(job(Promote::kRule, 2), 1U) << "it was not compared with version 1";
  EXPECT_THAT(log(), HasSubstr("another version was put in force meanwhile"));
}

TEST_F(ServicePromotionTest, WhatAJobPutsInForceIsInTheAuditLog) {
  job(Promote::kAlways, std::nullopt);
  job(Promote::kNever, std::nullopt);
  job(Promote::kRule, 1);
  const std::vector<std::string> lines = audit_.last(10).or_throw();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], HasSubstr(R"("who":"job 1")"));
  EXPECT_THAT(lines[0], HasSubstr(R"("before":"no version")"));
  EXPECT_THAT(lines[1], HasSubstr(R"("who":"job 3")"));
  EXPECT_THAT(lines[1], HasSubstr(R"("request":"by rule")"));
  EXPECT_THAT(lines[1], HasSubstr(R"("before":"version 1")"));
}

TEST(JobSpecPromote, IsTrueFalseOrTheRule) {
  const std::string model(64, 'a');
  const auto parsed = [&](const std::string& promote, const std::string& more = "") {
    const JobSpec s =
        parse_job_spec("{\"model\":\"" + model + "\",\"promote\":" + promote + more + "}");
    EXPECT_EQ(parse_job_spec(s.text()).promote, s.promote);
    return s.promote;
  };
  EXPECT_EQ(parsed("true"), Promote::kAlways);
  EXPECT_EQ(parsed("false"), Promote::kNever);
  EXPECT_EQ(parsed("\"rule\""), Promote::kRule);
  EXPECT_THROW(parsed("\"always\""), Error);
  EXPECT_THROW(parsed("1"), Error);
  EXPECT_THROW(parsed("\"rule\"", ",\"val_split\":0"), Error);
  EXPECT_THROW(parsed("\"rule\"", ",\"publish\":false"), Error);
}

}  // namespace
}  // namespace ndtrain
