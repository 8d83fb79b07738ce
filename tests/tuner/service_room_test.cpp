// Jobs on a Tuner whose volume is full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <new>

#include "tests/tuner/service_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;

using testing::ServiceTest;

class FullVolume : public ServiceTest {
 protected:
  static constexpr int64_t kAll = int64_t{1} << 40;

  void fill() {
    const Space space = fs_.space("state").or_throw();
    fs_.set_capacity(space.total - space.free + 10);
  }
  void say_what_is_there(uint64_t job) {
    wire::FromStore m;
    m.mutable_inventory()->set_job(job);
    m.mutable_inventory()->set_digests(std::string(32, 'x'));
    m.mutable_inventory()->add_labels(1);
    m.mutable_inventory()->add_names("cat");
    m.mutable_inventory()->set_sources(std::string(1, '\2'));
    m.mutable_inventory()->set_last(true);
    say(1, m);
    lanes_.run();
  }
  void look_again() {
    clock_.advance(RoomWait::kLook + std::chrono::seconds(1));
    service_.tick();
    lanes_.run();
  }
  size_t sent(bool (wire::ToStore::*has)() const) const {
    return static_cast<size_t>(
        std::ranges::count_if(links_.sent, [&](const auto& m) { return (m.second.*has)(); }));
  }
};

TEST_F(FullVolume, AJobWaitsForRoomSaysSoAndGoesOnByItself) {
  const uint64_t job = submit();
  lanes_.run();
  greet(1, "a");
  fill();
  say_what_is_there(job);  // which cannot be kept
  for (int looks = 0; looks < 3; ++looks) {
    EXPECT_EQ(service_.job(job).state, JobState::kRunning) << service_.job(job).message;
    EXPECT_THAT(service_.doing(job), HasSubstr("waits for room on the volume of state/jobs: "));
    EXPECT_THAT(service_.doing(job), HasSubstr("state/jobs/1/.numerics.cbor"));
    EXPECT_EQ(sent(&wire::ToStore::has_job), 1U);
    EXPECT_EQ(sent(&wire::ToStore::has_job_end), 1U) << "stores do not work for it meanwhile";
    EXPECT_EQ(sent(&wire::ToStore::has_wanted), 0U);
    look_again();
  }
  EXPECT_EQ(std::ranges::count(service_.log(job), service_.doing(job)), 1);
  fs_.set_capacity(kAll);
  look_again();
  greet(1, "a");  // whose heart has not beaten meanwhile
  EXPECT_EQ(sent(&wire::ToStore::has_job), 2U) << "asked anew";
  say_what_is_there(job);
  EXPECT_EQ(service_.job(job).state, JobState::kRunning);
  EXPECT_EQ(service_.doing(job), "");
  EXPECT_EQ(sent(&wire::ToStore::has_wanted), 1U);
  EXPECT_EQ(works_.alive, 1);
}

TEST_F(FullVolume, AJobWhoseTurnComesThenBeginsWhenThereIsRoom) {
  const uint64_t job = submit(), next = submit();
  lanes_.run();
  greet(1, "a");
  fill();
  wire::FromStore m;
  m.mutable_refused()->set_job(job);
  m.mutable_refused()->set_reason("its camera fell");
  say(1, m);
  service_.tick();
  lanes_.run();
  EXPECT_EQ(service_.job(job).state, JobState::kFailed) << "which is not for want of room";
  EXPECT_EQ(service_.job(next).state, JobState::kRunning) << service_.job(next).message;
  EXPECT_THAT(service_.doing(next), HasSubstr("waits for room"));
  EXPECT_EQ(works_.alive, 0);
  fs_.set_capacity(kAll);
  look_again();
  EXPECT_EQ(works_.alive, 1);
  EXPECT_EQ(service_.doing(next).find("room"), std::string::npos) << service_.doing(next);
}

TEST_F(FullVolume, AJobThatWaitsCanBePutAwayOnceThatCanBeKept) {
  const uint64_t job = submit();
  lanes_.run();
  greet(1, "a");
  fill();
  say_what_is_there(job);
  EXPECT_THROW(service_.cancel(job), Error) << "the next Tuner would go on with it";
  fs_.set_capacity(kAll);
  service_.cancel(job);
  look_again();
  EXPECT_EQ(service_.job(job).state, JobState::kCancelled);
  EXPECT_EQ(service_.doing(job), "");
  EXPECT_EQ(works_.alive, 0);
}

struct FailingWorks final : JobFactory {
  std::unique_ptr<JobWork> make(uint64_t, const JobSpec&, const std::string&, Progress&) override {
    throw Error("there is no kernel for it");
  }
};

TEST_F(FullVolume, AJobThatFailsForAnotherReasonDoesSoWhenThereIsRoom) {
  FailingWorks works;
  TunerService service({fs_, clock_, state_, links_, lanes_, works, models_, versions_},
                       state_.next_term(1).or_throw());
  const uint64_t job = service.submit({.model = to_hex(model_), .stores = 1});
  fill();
  lanes_.run();
  EXPECT_EQ(service.job(job).state, JobState::kRunning);
  fs_.set_capacity(kAll);
  clock_.advance(RoomWait::kLook);
  service.tick();
  lanes_.run();
  EXPECT_EQ(service.job(job).state, JobState::kFailed);
  EXPECT_EQ(service.job(job).message, "there is no kernel for it");
}

struct HungryWorks final : JobFactory {
  std::unique_ptr<JobWork> make(uint64_t, const JobSpec&, const std::string&, Progress&) override {
    throw std::bad_alloc();
  }
};

TEST_F(ServiceTest, AJobThatRunsOutOfMemoryFailsAndTheTunerGoesOn) {
  HungryWorks works;
  TunerService service({fs_, clock_, state_, links_, lanes_, works, models_, versions_},
                       state_.next_term(1).or_throw());
  const uint64_t job = service.submit({.model = to_hex(model_), .stores = 1});
  lanes_.run();
  EXPECT_EQ(service.job(job).state, JobState::kFailed);
  EXPECT_THAT(service.job(job).message, HasSubstr("out of memory; resume the job with"));
  EXPECT_EQ(service.submit({.model = to_hex(model_), .stores = 1}), job + 1);
}

}  // namespace
}  // namespace ndtrain::tuner
