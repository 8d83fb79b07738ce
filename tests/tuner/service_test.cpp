#include "tuner/service/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "framework/core/hash.h"
#include "framework/core/publish.h"
#include "ndp/wire/numbers.h"
#include "tests/support/files.h"
#include "tests/tuner/service_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
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

TEST_F(ServiceTest, AJobGoesOnWithOtherBoundsAndKeepsThem) {
  const uint64_t job = submit();
  lanes_.run();
  service_.pause(job);
  EXPECT_THROW(service_.resume(job, R"({"runs":9})"), Error);
  EXPECT_EQ(service_.job(job).state, JobState::kPaused) << "resumed without what was asked for";
  service_.resume(job, R"({"disk":4096})");
  EXPECT_EQ(service_.log(job).at(service_.log(job).size() - 2), R"(resumed with {"disk":4096})");
  EXPECT_EQ(service_.job(job).spec.disk, 4096);
  service_.pause(job);
  const TunerService again({fs_, clock_, state_, links_, lanes_, works_, models_, versions_},
                           state_.next_term(1).or_throw());
  EXPECT_EQ(again.job(job).spec.disk, 4096);
  EXPECT_EQ(again.log(job), service_.log(job)) << "what was said before, too";
}

// Jobs of years are not in memory with all that they said.
TEST_F(ServiceTest, WhatAJobSaidIsReadFromItsFileOnceItIsOver) {
  const uint64_t job = submit();
  lanes_.run();
  const std::string file = "state/jobs/" + std::to_string(job) + "/log.txt";
  const std::string first = service_.log(job).front();
  support::write_file(fs_, file, "another line\n");
  EXPECT_EQ(service_.log(job).front(), first) << "it goes on";
  service_.cancel(job);
  lanes_.run();
  EXPECT_THAT(service_.log(job), ElementsAre("another line", HasSubstr("cancelled")));
}

TEST_F(ServiceTest, AJobThatWaitsForStoresMayWaitForOthersUntilTheyHaveSaidWhatTheyHold) {
  const uint64_t job = submit();
  lanes_.run();
  service_.pause(job);
  EXPECT_THROW(service_.resume(job, R"({"stores":0})"), Error);
  service_.resume(job, R"({"stores":2})");
  lanes_.run();
  EXPECT_EQ(service_.doing(job), "waits for 2 stores that have not dialled yet");
  service_.pause(job);
  JobFiles kept(fs_, "state/jobs/" + std::to_string(job));
  kept.save_manifest(Manifest(Manifest::Entries(), {}, 1), {"a", "b"}).or_throw();
  try {
    service_.resume(job, R"({"stores":3})");
    FAIL() << "resumed with three";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("has its photos already, on 2 stores"));
  }
  EXPECT_EQ(service_.job(job).state, JobState::kPaused);
  service_.resume(job, R"({"stores":2,"store_timeout":5})");
  EXPECT_EQ(service_.job(job).spec.store_timeout, 5);
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

TEST_F(ServiceTest, AJobWaitsWhileWhatKeepsItsRowsIsAway) {
  works_.away = 2;
  const uint64_t job = submit();
  lanes_.run();
  greet(1, "a");
  wire::FromStore inventory;
  inventory.mutable_inventory()->set_job(job);
  inventory.mutable_inventory()->set_digests(std::string(32, 'x'));
  inventory.mutable_inventory()->add_labels(1);
  inventory.mutable_inventory()->add_names("cat");
  inventory.mutable_inventory()->set_sources(std::string(1, '\2'));
  inventory.mutable_inventory()->set_last(true);
  say(1, inventory);
  lanes_.run();
  const auto said = [&] {
    return std::ranges::count(service_.log(job), "waits: the database restarts");
  };
  EXPECT_EQ(said(), 1);
  for (int tries = 1; tries >= 0; --tries) {
    EXPECT_EQ(service_.job(job).state, JobState::kRunning);
    const bool early = links_.sent.back().second.has_wanted();
    EXPECT_FALSE(early) << "nothing is asked for before it can be kept";
    service_.tick();
    lanes_.run();
    EXPECT_EQ(works_.away, tries) << "asked again at once";
    clock_.advance(std::chrono::seconds(3));
    service_.tick();
    lanes_.run();
  }
  EXPECT_EQ(said(), 1) << "once is enough";
  EXPECT_TRUE(std::ranges::any_of(links_.sent, [](auto& m) { return m.second.has_wanted(); }));
}

TEST_F(ServiceTest, AJobThatBeginsWhileTheLabelDatabaseIsAwayWaits) {
  works_.makers_away = 2;
  const uint64_t job = submit();
  for (int tries = 1; tries >= 0; --tries) {
    lanes_.run();
    EXPECT_EQ(works_.makers_away, tries);
    EXPECT_EQ(service_.job(job).state, JobState::kRunning) << service_.job(job).message;
    EXPECT_EQ(service_.log(job).back(), "waits: the database restarts");
    clock_.advance(std::chrono::seconds(3));
    service_.tick();
  }
  lanes_.run();
  EXPECT_EQ(works_.alive, 1);
  EXPECT_EQ(service_.doing(job), "waits for 1 store that has not dialled yet");
  service_.stop();
  EXPECT_TRUE(service_.stopped());
}

TEST_F(ServiceTest, ATunerStopsWhileAJobWaitsToBegin) {
  works_.makers_away = 1;
  submit();
  lanes_.run();
  service_.stop();
  EXPECT_TRUE(service_.stopped());
}

// Whoever pauses a job wants the machines for something else.
TEST_F(ServiceTest, APausedJobHoldsNothingAndOthersGoBeforeItUntilItIsResumed) {
  const uint64_t job = submit(), next = submit();
  lanes_.run();
  greet(1, "a");
  service_.pause(job);
  ASSERT_TRUE(links_.sent.back().second.has_job_end()) << "the store goes on with it";
  EXPECT_EQ(links_.sent.back().second.job_end().job(), job);
  EXPECT_FALSE(links_.sent.back().second.job_end().done());
  EXPECT_EQ(service_.job(job).state, JobState::kPaused);
  EXPECT_EQ(service_.job(job).ended, 0);
  EXPECT_EQ(works_.alive, 0);
  EXPECT_THROW(service_.pause(job), Error);
  service_.tick();
  lanes_.run();
  EXPECT_EQ(service_.job(next).state, JobState::kRunning);
  service_.cancel(next);
  service_.tick();
  lanes_.run();
  EXPECT_EQ(service_.job(job).state, JobState::kPaused) << "it waits for a person";
  service_.resume(job);
  service_.tick();
  lanes_.run();
  EXPECT_EQ(service_.job(job).state, JobState::kRunning);
  ASSERT_TRUE(links_.sent.back().second.has_job());
  EXPECT_EQ(links_.sent.back().second.job().job(), job);
  EXPECT_THROW(service_.pause(next), Error);
}

TEST_F(ServiceTest, AJobIsPausedBeforeItBeginsAndStaysSoWhenTheTunerStartsAgain) {
  const uint64_t job = submit(), next = submit();
  lanes_.run();
  service_.pause(next);
  service_.pause(job);
  lanes_.run();
  service_.tick();
  lanes_.run();
  EXPECT_EQ(works_.alive, 0);
  TunerService again({fs_, clock_, state_, links_, lanes_, works_, models_, versions_},
                     state_.next_term(1).or_throw());
  lanes_.run();
  for (const uint64_t j : {job, next}) EXPECT_EQ(again.job(j).state, JobState::kPaused);
  again.resume(next);
  lanes_.run();
  EXPECT_EQ(again.job(next).state, JobState::kRunning);
  again.cancel(job);
  EXPECT_EQ(again.job(job).state, JobState::kCancelled);
  again.stop();
  lanes_.run();
}

TEST_F(ServiceTest, AJobThatWaitsCanBeCancelledAndTheTunerStopped) {
  for (const bool stop : {false, true}) {
    works_.away = 1;
    const uint64_t job = submit();
    lanes_.run();
    if (!stop) greet(1, "a");
    wire::FromStore inventory;
    inventory.mutable_inventory()->set_job(job);
    inventory.mutable_inventory()->set_last(true);
    say(1, inventory);
    lanes_.run();
    if (stop) {
      service_.stop();
      EXPECT_TRUE(service_.stopped());
    } else {
      service_.cancel(job);
      EXPECT_EQ(service_.job(job).state, JobState::kCancelled);
    }
    EXPECT_EQ(works_.alive, 0) << "something holds the job";
  }
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

TEST_F(ServiceTest, AFullDiskRefusesToPauseAJobThatWaitsAndTheTunerLivesOn) {
  submit();
  const uint64_t next = submit();
  lanes_.run();
  fs_.set_capacity(0);
  EXPECT_THROW(service_.pause(next), Error);
  EXPECT_EQ(service_.job(next).state, JobState::kQueued);
  fs_.set_capacity(1 << 20);
  service_.pause(next);
  EXPECT_EQ(service_.job(next).state, JobState::kPaused);
}

TEST_F(ServiceTest, ADrainedStoreIsGivenNoWorkByTheNextTunerEither) {
  greet(1, "a");
  service_.drain("a", true);
  uint64_t term = 1;
  const auto restarted = [&] {
    return std::make_unique<TunerService>(
        TunerService::Setting{fs_, clock_, state_, links_, lanes_, works_, models_, versions_},
        state_.next_term(++term).or_throw());
  };
  auto next = restarted();
  ASSERT_EQ(next->stores().size(), 1U);
  EXPECT_TRUE(next->stores().at(0).drained);
  EXPECT_EQ(next->stores().at(0).name, "a");
  next->drain("a", false);
  next = restarted();
  EXPECT_FALSE(next->stores().at(0).drained);
  EXPECT_THROW(next->drain("b", true), Error) << "which it does not know";
}

TEST_F(ServiceTest, AForgottenStoreIsNotDrainedWhenItComesBack) {
  greet(1, "a");
  service_.drain("a", true);
  service_.handle({1, LinkClosed{"gone"}});
  service_.forget("a");
  const TunerService next({fs_, clock_, state_, links_, lanes_, works_, models_, versions_},
                          state_.next_term(1).or_throw());
  EXPECT_TRUE(next.stores().empty());
}

TEST_F(ServiceTest, AFullDiskRefusesToDrainAStoreAndTheTunerLivesOn) {
  greet(1, "a");
  fs_.set_capacity(0);
  EXPECT_THROW(service_.drain("a", true), Error);
  EXPECT_FALSE(service_.stores().at(0).drained);
  fs_.set_capacity(1 << 20);
  service_.drain("a", true);
  fs_.set_capacity(0);
  EXPECT_THROW(service_.drain("a", false), Error);
  EXPECT_TRUE(service_.stores().at(0).drained);
  service_.handle({1, LinkClosed{"gone"}});
  EXPECT_THROW(service_.forget("a"), Error);
  EXPECT_EQ(service_.stores().size(), 1U);
}

TEST_F(ServiceTest, SaysHowMuchRoomThereIsForFeaturesBeforeTheVolumesLastTwentieth) {
  fs_.set_capacity(100'000);
  EXPECT_EQ(service_.room(), 10'000) << "a tenth of the volume";
  const Space space = fs_.space("state").or_throw();
  const auto spare = static_cast<size_t>(space.free - space.total / 20);
  support::write_file(fs_, "state/other", std::string(spare - 7, 'x'));
  EXPECT_EQ(service_.room(), 7);
  support::write_file(fs_, "state/more", std::string(100, 'x'));
  EXPECT_EQ(service_.room(), 1) << "0 would say that it is not known";
}

// Else the next Tuner would go on with it, which the person was told is paused.
TEST_F(ServiceTest, AFullDiskRefusesToPauseTheJobInProgressWhichGoesOn) {
  const uint64_t job = submit();
  lanes_.run();
  fs_.set_capacity(0);
  for (const bool pause : {true, false}) {
    try {
      pause ? service_.pause(job) : service_.cancel(job);
      ADD_FAILURE() << "it cannot be kept";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("job 1 is running as before"), HasSubstr("full"),
                                  HasSubstr("make room on the Tuner's volume")));
    }
    EXPECT_EQ(service_.job(job).state, JobState::kRunning);
    EXPECT_EQ(works_.alive, 1);
  }
  fs_.set_capacity(1 << 20);
  service_.pause(job);
  EXPECT_EQ(service_.job(job).state, JobState::kPaused);
  EXPECT_EQ(service_.log(job).back(), "paused: on request");
}

// The first part of it came before the job was paused, or the whole of it comes late.
TEST_F(ServiceTest, WhatAStoreSaysOfAJobBeforeItWasPausedIsNoAnswerAfterwards) {
  const uint64_t job = submit();
  greet(1, "a");
  lanes_.run();
  const uint64_t before = links_.sent.back().second.job().serial();
  service_.pause(job);
  lanes_.run();
  service_.resume(job);
  lanes_.run();
  ASSERT_TRUE(links_.sent.back().second.has_job());
  const uint64_t now = links_.sent.back().second.job().serial();
  const auto inventory = [&](uint64_t answers, size_t photos) {
    wire::FromStore m;
    m.set_answers(answers);
    m.mutable_inventory()->set_job(job);
    for (size_t p = 0; p < photos; ++p) {
      m.mutable_inventory()->mutable_digests()->append(32, static_cast<char>('x' + p));
      m.mutable_inventory()->add_labels(1);
    }
    m.mutable_inventory()->add_names("cat");
    m.mutable_inventory()->set_sources(std::string(photos, '\2'));
    m.mutable_inventory()->set_last(true);
    return m;
  };
  wire::FromStore refused;
  refused.set_answers(before);
  refused.mutable_refused()->set_job(job);
  say(1, inventory(before, 1));
  say(1, refused);
  say(1, inventory(now, 2));
  lanes_.run();
  EXPECT_EQ(service_.job(job).state, JobState::kRunning) << service_.job(job).message;
  ASSERT_TRUE(links_.sent.back().second.has_wanted());
  for (const auto& [link, m] : links_.sent) {
    EXPECT_FALSE(m.has_refusal()) << m.refusal().text();
  }
  EXPECT_EQ(service_.stores().at(0).photos, 2U);
}

TEST_F(ServiceTest, WhatComesWhileASinkWritesIsGivenToItInPieces) {
  const uint64_t job = submit();
  greet(1, "a");
  lanes_.run();
  constexpr uint32_t kPhotos = 8 * TunerService::kKeptAtOnce, kInMessage = kPhotos / 4;
  for (uint32_t p = 0; p < kPhotos;) {
    wire::FromStore inventory;
    wire::Inventory& i = *inventory.mutable_inventory();
    i.set_job(job);
    if (p == 0) i.add_names("cat");
    do {
      std::string digest(32, '\0');
      for (size_t b = 0; b < 4; ++b) digest[b] = static_cast<char>(p >> (24 - 8 * b));
      i.mutable_digests()->append(digest);
      i.add_labels(1);
    } while (++p % kInMessage != 0);
    i.set_sources(std::string(kInMessage, '\2'));
    i.set_last(p == kPhotos);
    say(1, inventory);
  }
  lanes_.run();
  constexpr size_t kAtOnce = TunerService::kKeptAtOnce * 2 / 5;
  // It is asked for more at a time, as it delivers what it was asked for at once.
  for (size_t asked = 0; asked < 2 * TunerService::kKeptAtOnce;) {
    std::vector<std::pair<uint32_t, std::vector<uint64_t>>> all;  // of each run
    asked = 0;
    for (const auto& [to, m] : std::exchange(links_.sent, {})) {
      if (!m.has_wanted()) continue;
      const std::string& packed = m.wanted().numbers();
      all.emplace_back(m.wanted().run(),
                       unpack_numbers(packed, UINT64_MAX, packed.size()).or_throw());
      asked += all.back().second.size();
    }
    ASSERT_GT(asked, 0U);
    works_.kept.clear();
    for (const auto& [run, numbers] : all) {
      for (size_t at = 0; at < numbers.size(); at += kAtOnce) {
        const auto some = std::span(numbers).subspan(at, std::min(kAtOnce, numbers.size() - at));
        wire::FromStore m;
        m.mutable_rows()->set_job(job);
        m.mutable_rows()->set_run(run);
        m.mutable_rows()->set_chunk(at + 1);
        m.mutable_rows()->set_numbers(pack_numbers(some));
        m.mutable_rows()->set_rows(std::string(4 * some.size(), 'x'));
        m.mutable_rows()->set_checksum(xxh3(m.rows().rows().data(), m.rows().rows().size()));
        say(1, m);
      }
    }
    const size_t out = service_.rows_waiting();
    EXPECT_GE(out, asked - std::min(asked, kAtOnce)) << "but for the message that is kept already";
    EXPECT_LE(out, asked);
    lanes_.run();
    EXPECT_EQ(service_.rows_waiting(), 0U);
    EXPECT_EQ(std::accumulate(works_.kept.begin(), works_.kept.end(), size_t{0}), asked);
  }
  ASSERT_GT(works_.kept.size(), 2U);
  EXPECT_EQ(works_.kept[0], kAtOnce) << "the first finds the sink idle";
  EXPECT_GT(works_.kept[1], kAtOnce) << "then what has come meanwhile";
  for (const size_t n : works_.kept) EXPECT_LE(n, TunerService::kKeptAtOnce);
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

TEST_F(ServiceTest, ADamagedFileOfAnOldJobKeepsNobodyFromStarting) {
  const uint64_t first = submit(), second = submit();
  lanes_.run();
  service_.cancel(first);
  const std::string path = "state/jobs/" + std::to_string(first) + "/job.json";
  std::string bytes = fs_.read(path).or_throw();
  bytes[bytes.find("cancelled")] ^= 1;
  support::write_file(fs_, path, bytes);
  support::write_file(fs_, "state/jobs/99999999999999999999999/job.json", "{}");
  TunerService again({fs_, clock_, state_, links_, lanes_, works_, models_, versions_},
                     state_.next_term(1).or_throw());
  EXPECT_EQ(again.job(first).state, JobState::kFailed);
  EXPECT_THAT(again.job(first).message, AllOf(HasSubstr(path), HasSubstr("is damaged")));
  EXPECT_EQ(again.job(second).state, JobState::kRunning) << "the others go on";
  EXPECT_THROW(again.resume(first), Error);
  EXPECT_EQ(fs_.read(path).or_throw(), bytes) << "it is left as it is";
  EXPECT_EQ(again.submit({.model = to_hex(model_), .stores = 1}), second + 1);
}

}  // namespace
}  // namespace ndtrain::tuner
