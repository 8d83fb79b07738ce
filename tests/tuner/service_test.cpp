#include "tuner/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tuner/service_fixture.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

using testing::ServiceTest;

TEST_F(ServiceTest, AJobInProgressCanBeCancelled) {
  const uint64_t job = submit();
  lanes_.run();
  service_.cancel(job);
  EXPECT_EQ(service_.job(job).state, JobState::kCancelled);
  service_.resume(job);
  lanes_.run();
  EXPECT_EQ(service_.job(job).state, JobState::kRunning);
}

TEST_F(ServiceTest, AJobFailsBecauseOfWhatAStoreSaysAndTheNextOneBegins) {
  const uint64_t job = submit(), next = submit();
  lanes_.run();
  greet(1, "a");
  wire::FromStore m;
  m.mutable_refused()->set_job(job);
  m.mutable_refused()->set_reason("no space");
  say(1, m);
  service_.tick();
  EXPECT_EQ(service_.job(job).state, JobState::kFailed);
  EXPECT_THAT(service_.job(job).message, HasSubstr("no space"));
  EXPECT_EQ(service_.job(next).state, JobState::kRunning);
}

// Both would have the same files open.
TEST_F(ServiceTest, AResumedJobBeginsWhenTheTasksOfItsFormerLifeAreOver) {
  const uint64_t job = submit();
  Continuation after = lanes_.tasks.front()();
  lanes_.tasks.clear();
  service_.cancel(job);
  service_.resume(job);
  lanes_.run();
  EXPECT_EQ(service_.job(job).state, JobState::kQueued);
  after();
  after = nullptr;
  service_.tick();
  lanes_.run();
  EXPECT_EQ(service_.job(job).state, JobState::kRunning);
  EXPECT_EQ(works_.alive, 1);
}

TEST_F(ServiceTest, AFullDiskFailsTheJobAndTheTunerLivesOn) {
  const uint64_t job = submit();
  lanes_.run();
  greet(1, "a");
  fs_.set_capacity(0);
  wire::FromStore m;
  m.mutable_inventory()->set_job(job);
  m.mutable_inventory()->set_last(true);
  say(1, m);  // a manifest, which does not fit
  lanes_.run();
  EXPECT_EQ(service_.job(job).state, JobState::kFailed);
  EXPECT_THAT(service_.job(job).message, HasSubstr("full"));
  EXPECT_THROW(service_.resume(job), Error);
  EXPECT_EQ(service_.job(job).state, JobState::kFailed);
  fs_.set_capacity(1 << 20);
  service_.resume(job);
  EXPECT_EQ(service_.job(job).state, JobState::kRunning);
}

// It died between the last part and giving the model its name.
TEST_F(ServiceTest, AStoreThatHasEveryByteOfAModelIsToldThatThisIsAll) {
  greet(1, "a");
  wire::FromStore m;
  m.mutable_model_wanted()->set_sha256(std::string(model_.begin(), model_.end()));
  m.mutable_model_wanted()->set_offset(7);
  say(1, m);
  ASSERT_TRUE(links_.sent.back().second.has_model_part());
  EXPECT_EQ(links_.sent.back().second.model_part().total(), 7U);
  EXPECT_EQ(links_.sent.back().second.model_part().bytes(), "");
  m.mutable_model_wanted()->set_offset(8);
  say(1, m);
  EXPECT_TRUE(links_.sent.back().second.has_refusal());
}

}  // namespace
}  // namespace ndtrain
