// Jobs of one Tuner beside each other: which begin, what each store is asked, and that what happens
// to one leaves the others alone.
#include <gmock/gmock.h>

#include <set>

#include "tests/tuner/service_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class JobsAtOnce : public testing::ServiceTest {
 protected:
  static constexpr LinkId kA = 1;

  JobsAtOnce() { works_.at_once = static_cast<int>(kMostJobsAtOnce); }

  uint64_t submit(JobKind kind, const std::string& collection = std::string(kDefaultCollection)) {
    const uint64_t job =
        service_.submit({.kind = kind, .model = to_hex(model_), .collection = collection});
    lanes_.run();
    return job;
  }
  uint64_t finetune() { return submit(JobKind::kFinetune); }
  uint64_t relabel() { return submit(JobKind::kRelabel); }
  void greet_of(LinkId link, const std::string& store, const std::string& collection) {
    service_.handle({link, LinkOpened{"a host", ""}});
    wire::FromStore hello;
    hello.mutable_hello()->add_protocols(kProtocols[0]);
    hello.mutable_hello()->set_store(store);
    hello.mutable_hello()->set_collection(collection);
    service_.handle({link, hello});
  }
  // The store has one photo.
  void inventory(LinkId link, uint64_t job) {
    wire::FromStore m;
    wire::Inventory& i = *m.mutable_inventory();
    i.set_job(job);
    i.set_digests(std::string(32, 'a'));
    i.add_labels(1);
    i.add_names("cat");
    i.set_sources(std::string(1, '\2'));
    i.set_last(true);
    say(link, m);
    lanes_.run();
  }
  // Jobs that the stores were told of since the last call, in order: asked for, or (negative) over.
  std::vector<int> told() {
    std::vector<int> jobs;
    for (const auto& [link, m] : std::exchange(links_.sent, {})) {
      if (m.has_job()) jobs.push_back(static_cast<int>(m.job().job()));
      if (m.has_job_end()) jobs.push_back(-static_cast<int>(m.job_end().job()));
    }
    return jobs;
  }
  static JobState state(const TunerService& service, uint64_t job) {
    return service.job(job).state;
  }
  static std::string wait(const TunerService& service, uint64_t job) {
    const auto wait = service.waits_for_job(job);
    return wait ? std::to_string(wait->job) + ": " + wait->why : "";
  }
};

TEST_F(JobsAtOnce, ARelabellingBeginsBesideAFineTuningAndTheNextOfEachKindWaits) {
  greet(kA, "a");
  const uint64_t training = finetune(), labelling = relabel();
  EXPECT_THAT(told(), ElementsAre(1, 2));
  const uint64_t second = finetune(), third = relabel();
  EXPECT_THAT(told(), IsEmpty());
  EXPECT_EQ(state(service_, training), JobState::kRunning);
  EXPECT_EQ(state(service_, labelling), JobState::kRunning);
  EXPECT_EQ(wait(service_, labelling), "");
  EXPECT_EQ(state(service_, second), JobState::kQueued);
  EXPECT_EQ(wait(service_, second), "1: both train, and a Tuner trains one at a time");
  EXPECT_EQ(wait(service_, third), "2: both label photos of the same stores");
  service_.cancel(labelling);
  service_.tick();
  lanes_.run();
  EXPECT_THAT(told(), ElementsAre(-2, 4)) << "the third does not wait for the second";
  EXPECT_EQ(state(service_, second), JobState::kQueued);
}

// An evaluation that waits is not overtaken by those that it would then wait for.
TEST_F(JobsAtOnce, NoneOvertakesOneThatItIsInConflictWith) {
  greet(kA, "a");
  relabel();
  const uint64_t second = submit(JobKind::kEvaluate), third = relabel();
  EXPECT_EQ(wait(service_, third), "1: both label photos of the same stores");
  service_.cancel(1);
  service_.tick();
  lanes_.run();
  EXPECT_EQ(state(service_, second), JobState::kRunning);
  EXPECT_EQ(wait(service_, third), "2: both label photos of the same stores");
  service_.pause(second);
  service_.tick();
  lanes_.run();
  EXPECT_EQ(state(service_, third), JobState::kRunning) << "a paused one is waited for by nobody";
}

TEST_F(JobsAtOnce, WhatHappensToOneLeavesTheOtherAlone) {
  greet(kA, "a");
  const uint64_t training = finetune(), labelling = relabel();
  inventory(kA, labelling);
  EXPECT_EQ(service_.in_progress(labelling)->phase, JobPhase::kRunning);
  EXPECT_EQ(service_.in_progress(training)->phase, JobPhase::kWaiting) << "it was not asked yet";
  EXPECT_THAT(service_.doing(training), HasSubstr("waits for a"));
  (void)told();
  service_.pause(training);
  lanes_.run();
  EXPECT_THAT(told(), ElementsAre(-1));
  EXPECT_EQ(service_.in_progress(training), nullptr);
  EXPECT_EQ(state(service_, labelling), JobState::kRunning);
  EXPECT_EQ(works_.alive, 1);
  service_.resume(training);
  service_.tick();
  lanes_.run();
  EXPECT_THAT(told(), ElementsAre(1));
  wire::FromStore refused;
  refused.mutable_refused()->set_job(labelling);
  refused.mutable_refused()->set_reason("no room");
  say(kA, refused);
  lanes_.run();
  EXPECT_THAT(service_.log(labelling), Contains(HasSubstr("no room")));
  EXPECT_THAT(service_.log(training), Not(Contains(HasSubstr("no room"))));
  EXPECT_EQ(state(service_, training), JobState::kRunning);
}

TEST_F(JobsAtOnce, ThereAreAsManyAsMayBe) {
  for (LinkId link = 1; link <= kMostJobsAtOnce + 1; ++link) {
    greet_of(link, "s" + std::to_string(link), "c" + std::to_string(link));
  }
  for (uint64_t n = 1; n <= kMostJobsAtOnce + 1; ++n) {
    submit(JobKind::kRelabel, "c" + std::to_string(n));
  }
  EXPECT_EQ(state(service_, kMostJobsAtOnce), JobState::kRunning);
  EXPECT_EQ(state(service_, kMostJobsAtOnce + 1), JobState::kQueued);
  EXPECT_EQ(wait(service_, kMostJobsAtOnce + 1), "1: as many jobs run as may, 4");
  service_.cancel(2);
  service_.tick();
  EXPECT_EQ(state(service_, kMostJobsAtOnce + 1), JobState::kRunning);
}

TEST_F(JobsAtOnce, AfterARestartAllGoOnOrOneAfterTheOtherWhereOnlyOneMay) {
  greet(kA, "a");
  finetune();
  relabel();
  service_.stop();
  lanes_.run();
  EXPECT_TRUE(service_.stopped());
  for (const size_t at_once : {size_t{2}, size_t{1}}) {
    TunerService next({.fs = fs_,
                       .clock = clock_,
                       .state = state_,
                       .links = links_,
                       .lanes = lanes_,
                       .works = works_,
                       .models = models_,
                       .versions = versions_,
                       .jobs_at_once = at_once},
                      state_.next_term(1).or_throw());
    lanes_.run();
    EXPECT_NE(next.in_progress(1), nullptr);
    EXPECT_EQ(next.in_progress(2) != nullptr, at_once == 2);
    EXPECT_THAT(next.log(1), Contains("the Tuner goes on with this job"));
    EXPECT_EQ(wait(next, 2), at_once == 2 ? "" : "1: as many jobs run as may, 1");
    next.stop();
    lanes_.run();
    EXPECT_TRUE(next.stopped());
  }
}

// It makes rows for the job that it was asked for last, so it is asked for one at a time.
TEST_F(JobsAtOnce, AStoreOfAnEarlierProgramHasOneJobAtATime) {
  greet(kA, "a", "", kSpeaksOfJobsAtOnce - 1);
  const uint64_t training = finetune(), labelling = relabel();
  EXPECT_THAT(told(), ElementsAre(1));
  EXPECT_THAT(service_.doing(labelling), HasSubstr("waits for a"));
  EXPECT_THAT(service_.log(labelling), Contains(HasSubstr("rows for one job at a time")));
  service_.handle({kA, LinkClosed{"gone"}});
  greet(kA, "a", "", kSpeaksOfJobsAtOnce - 1);
  EXPECT_THAT(told(), ElementsAre(1)) << "in its next session, too";
  service_.cancel(training);
  lanes_.run();
  EXPECT_THAT(told(), ElementsAre(-1, 2));
}

// Files of jobs are looked through while none is in progress; more that begin would put that off.
TEST_F(JobsAtOnce, NoneBeginsBesideOthersWhileDeletedPhotosLeaveTraces) {
  greet(kA, "a");
  const uint64_t training = finetune();
  (void)service_.delete_photos({{sha256("a photo")}});
  lanes_.run();
  const uint64_t labelling = relabel();
  EXPECT_EQ(wait(service_, labelling), "1: photos that were deleted leave its files then");
  service_.cancel(training);
  for (int i = 0; i < 3; ++i) {
    service_.tick();
    lanes_.run();
  }
  EXPECT_EQ(state(service_, labelling), JobState::kRunning);
}

}  // namespace
}  // namespace ndtrain::tuner
