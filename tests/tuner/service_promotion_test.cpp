// What becomes of a job's version.
#include <gmock/gmock.h>

#include "tests/tuner/given_work.h"
#include "tests/tuner/service_fixture.h"
#include "tuner/work/promotion.h"

namespace ndtrain::tuner {
using namespace ndp;

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
      return JobOutcome{.model = model,
                        .instead_of = instead_of,
                        .figures = "top-1 .6, against .5",
                        .why = "top-1 .6, against .5: it waits"};
    };
    last_ = service_.submit({.model = to_hex(model_), .promote = promote});
    lanes_.run();
    EXPECT_EQ(service_.job(last_).state, JobState::kDone) << service_.job(last_).message;
    return versions_.in_force(kDefaultTask) ? versions_.in_force(kDefaultTask)->version : 0;
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

TEST_F(ServicePromotionTest, TheRuleIsTheDefaultAndPutsTheFirstVersionInForce) {
  EXPECT_EQ(JobSpec().promote, Promote::kRule);
  EXPECT_EQ(parse_job_spec("{\"model\":\"" + to_hex(model_) + "\"}").promote, Promote::kRule);
  EXPECT_EQ(job(Promote::kNever, std::nullopt), 0U);
  EXPECT_EQ(job(Promote::kRule, std::nullopt), 2U) << "nothing is in force";
  EXPECT_EQ(service_.job(last_).message, "");
}

TEST_F(ServicePromotionTest, TheLastLineSaysWhyAVersionWaitsAndWhatPutsItInForce) {
  EXPECT_EQ(job(Promote::kRule, 0), 1U);
  EXPECT_EQ(job(Promote::kRule, std::nullopt), 1U);
  EXPECT_EQ(versions_.aliases(kDefaultTask).at(kCandidate), 2U);
  const std::string name = text_of(versions_.find(2));
  EXPECT_THAT(log(), HasSubstr("published as " + name + ", a candidate"));
  EXPECT_EQ(service_.log(last_).back(),
            "done: " + name +
                " is not in force: top-1 .6, against .5: it waits; ndtrain model promote 2 puts it "
                "in force");
  EXPECT_THAT(service_.job(last_).result, HasSubstr("\"in_force\":false"));
  EXPECT_EQ(job(Promote::kNever, std::nullopt), 1U);
  EXPECT_THAT(service_.log(last_).back(), HasSubstr("ndtrain model promote 3"));
  EXPECT_EQ(job(Promote::kAlways, std::nullopt), 4U);
  EXPECT_EQ(service_.log(last_).back(), "done");
}

TEST_F(ServicePromotionTest, ARulesWordCountsForWhatItWasComparedWith) {
  EXPECT_EQ(job(Promote::kRule, 0), 1U) << "nothing was in force";
  EXPECT_EQ(job(Promote::kRule, 1), 2U);
  EXPECT_THAT(service_.job(last_).result, HasSubstr("\"in_force\":true"));
  meanwhile_ = [this] { service_.promote(1); };
  EXPECT_EQ(job(Promote::kRule, 2), 1U) << "it was not compared with version 1";
  EXPECT_THAT(service_.log(last_).back(),
              HasSubstr("version 1 was put in force meanwhile, with which it was not compared "
                        "(top-1 .6, against .5); ndtrain model promote 3"));
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
  EXPECT_THAT(lines[1], HasSubstr(R"("before":"version 1 ()"));
}

// By the binomial coefficients of 14: 2002, 1001, 364, 91, 14, 1 of 16384.
TEST(McNemar, IsTheExactChanceOfSuchAGain) {
  EXPECT_NEAR(mcnemar(9, 5), 3473.0 / 16384, 1e-13);
  EXPECT_NEAR(mcnemar(5, 9), 1 - 1471.0 / 16384, 1e-13);
  EXPECT_EQ(mcnemar(0, 0), 1);
  EXPECT_EQ(mcnemar(0, 7), 1);
  EXPECT_NEAR(mcnemar(1, 1), 0.75, 1e-13);
  EXPECT_NEAR(mcnemar(20'000, 20'000), 0.5 + 0.5 * 0.003989, 1e-5);
  EXPECT_LT(mcnemar(600'000, 500'000), 1e-300);
  EXPECT_NEAR(mcnemar(500'000, 600'000), 1, 1e-13);
}

TEST(McNemar, FourPhotosMoreMayBeChanceAndFiveAreNot) {
  EXPECT_GE(mcnemar(4, 0), kByChance);
  EXPECT_LT(mcnemar(5, 0), kByChance);
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
  // It is the default: without photos to compare on it says so, and the version waits.
  EXPECT_EQ(parsed("\"rule\"", ",\"val_split\":0"), Promote::kRule);
  EXPECT_EQ(parsed("\"rule\"", ",\"publish\":false"), Promote::kRule);
}

}  // namespace
}  // namespace ndtrain::tuner
