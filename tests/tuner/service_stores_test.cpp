// Which stores a job of the Tuner begins with, and what it says of the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "framework/core/hash.h"
#include "ndp/wire/numbers.h"
#include "tests/tuner/service_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class JobStores : public testing::ServiceTest {
 protected:
  static constexpr LinkId kA = 1, kB = 2, kC = 3;

  JobStores() {
    for (const auto& [link, name] : names_) {
      greet(link, name);
      photos(link, 10 * link);
    }
  }

  // Of a store that says in its session how many it has.
  void photos(LinkId link, uint64_t n) {
    wire::FromStore m;
    m.mutable_space()->set_photos(n);
    say(link, m);
  }
  void leave(LinkId link) { service_.handle({link, LinkClosed{"it stops"}}); }
  uint64_t submit(const StoreSelection& stores = {}, bool deterministic = false) {
    const uint64_t job = service_.submit(
        {.model = to_hex(model_), .stores = stores, .deterministic = deterministic});
    lanes_.run();
    return job;
  }
  // Second by second.
  void wait(int s) {
    for (int i = 0; i < s; ++i) {
      clock_.advance(seconds(1));
      for (const auto& [link, name] : names_) {
        wire::FromStore ping;
        ping.mutable_ping();
        say(link, ping);
      }
      service_.tick();
      lanes_.run();
    }
  }
  // A photo that nobody else has.
  void inventory(LinkId link, uint64_t job, uint64_t unreadable = 0) {
    wire::FromStore m;
    wire::Inventory& i = *m.mutable_inventory();
    i.set_job(job);
    i.set_digests(std::string(32, static_cast<char>('a' + link)));
    i.add_labels(1);
    i.add_names("cat");
    i.set_sources(std::string(1, '\2'));
    i.set_unreadable(unreadable);
    i.set_last(true);
    say(link, m);
    lanes_.run();
  }
  // Rows for all that was asked of the store, or that it cannot read any.
  void deliver(LinkId link, bool readable = true) {
    const auto sent = links_.sent;
    for (const auto& [to, message] : sent) {
      if (to != link || !message.has_wanted()) continue;
      const wire::Wanted& w = message.wanted();
      wire::FromStore m;
      m.mutable_rows()->set_job(w.job());
      m.mutable_rows()->set_run(w.run());
      m.mutable_rows()->set_numbers(w.numbers());
      const auto numbers = unpack_numbers(w.numbers(), UINT64_MAX, w.numbers().size()).or_throw();
      for (const uint64_t n : numbers) {
        if (!readable) m.mutable_rows()->add_unreadable()->set_number(n);
      }
      if (readable) m.mutable_rows()->set_rows(std::string(4 * numbers.size(), 'x'));
      m.mutable_rows()->set_checksum(xxh3(m.rows().rows().data(), m.rows().rows().size()));
      say(link, m);
    }
    lanes_.run();
    service_.tick();
    lanes_.run();
  }
  bool asked(LinkId link, uint64_t job) const {
    return std::ranges::any_of(links_.sent, [&](const auto& m) {
      return m.first == link && m.second.has_job() && m.second.job().job() == job;
    });
  }
  bool begun(uint64_t job) {
    return fs_.exists("state/jobs/" + std::to_string(job) + "/manifest.cbor");
  }
  nlohmann::json result(uint64_t job) const {
    return nlohmann::json::parse(service_.job(job).result);
  }
  std::string refusal(const std::function<void()>& what) const {
    try {
      what();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  const std::map<LinkId, std::string> names_ = {{kA, "a"}, {kB, "b"}, {kC, "c"}};
};

TEST_F(JobStores, AJobIsForAllKnownStoresAndSaysEveryFewSecondsWhomItWaitsFor) {
  leave(kC);
  const uint64_t job = submit();
  for (const LinkId link : {kA, kB}) inventory(link, job);
  const std::string hint = "; ndtrain job start-now 1 goes on without";
  ASSERT_NE(service_.waits_for(job), nullptr);
  EXPECT_EQ(service_.doing(job), "waits for c (30 photos, away for 0 s)");
  wait(2);
  EXPECT_EQ(service_.log(job).back(), "waits for c (30 photos, away for 2 s)" + hint);
  wait(4);
  EXPECT_THAT(service_.log(job), Not(Contains(HasSubstr("away for 6 s"))));
  wait(1);
  EXPECT_EQ(service_.log(job).back(), "waits for c (30 photos, away for 7 s)" + hint);
  EXPECT_FALSE(begun(job));
  greet(kC, "c");
  inventory(kC, job);
  EXPECT_TRUE(begun(job));
  EXPECT_EQ(service_.waits_for(job), nullptr);
  for (const auto& [link, name] : names_) deliver(link);
  ASSERT_EQ(service_.job(job).state, JobState::kDone) << service_.job(job).message;
  EXPECT_FALSE(result(job).contains("left_out_stores"));
  EXPECT_FALSE(result(job).contains("left_out"));
}

TEST_F(JobStores, AWaitOfLessThanTwoSecondsIsNotSaid) {
  const uint64_t job = submit();
  inventory(kA, job);
  inventory(kB, job);
  clock_.advance(std::chrono::milliseconds(1999));
  service_.tick();
  EXPECT_THAT(service_.log(job), Not(Contains(HasSubstr("waits for"))));
  EXPECT_LE(service_.next() - clock_.monotonic(), seconds(2)) << "it looks again soon";
  inventory(kC, job);
  EXPECT_TRUE(begun(job));
  EXPECT_THAT(service_.log(job), Not(Contains(HasSubstr("waits for"))));
}

TEST_F(JobStores, WhoStaysAwayIsNamedWithItsPhotosInTheLogAndTheResult) {
  leave(kC);
  const uint64_t job = submit();
  for (const LinkId link : {kA, kB}) inventory(link, job);
  wait(29);
  EXPECT_FALSE(begun(job));
  wait(1);
  EXPECT_TRUE(begun(job));
  EXPECT_THAT(service_.log(job), Contains("begins without c (30 photos, away for 30 s)"));
  for (const LinkId link : {kA, kB}) deliver(link);
  ASSERT_EQ(service_.job(job).state, JobState::kDone) << service_.job(job).message;
  const nlohmann::json left_out = nlohmann::json::array(
      {nlohmann::json{{"store", "c"}, {"photos", 30}, {"why", "away for 30 s"}}});
  EXPECT_EQ(result(job).at("left_out_stores"), left_out);
  EXPECT_EQ(service_.log(job).back(), "done: without c (30 photos, away for 30 s)");
}

TEST_F(JobStores, OneThatWasAwayForLongerAlreadyIsOnlyNamed) {
  leave(kC);
  wait(31);
  const uint64_t job = submit();
  for (const LinkId link : {kA, kB}) inventory(link, job);
  EXPECT_TRUE(begun(job));
  EXPECT_THAT(service_.log(job), Contains(HasSubstr("begins without c (30 photos")));
}

TEST_F(JobStores, WhoseInventoryTakesLongIsWaitedFor) {
  const uint64_t job = submit();
  inventory(kA, job);
  inventory(kB, job);
  wait(3600);
  EXPECT_FALSE(begun(job));
  EXPECT_THAT(service_.doing(job), HasSubstr("waits for c (30 photos, lists its photos)"));
  EXPECT_LT(service_.log(job).size(), 60U) << "less often, the longer it waits";
  inventory(kC, job);
  EXPECT_TRUE(begun(job));
}

TEST_F(JobStores, OneThatCameToHoldPhotosOfAnotherIsAskedAgain) {
  const uint64_t job = submit();
  for (const auto& [link, name] : names_) inventory(link, job);
  ASSERT_TRUE(begun(job));
  const auto times_asked = [&] {
    return std::ranges::count_if(links_.sent,
                                 [](const auto& m) { return m.first == kA && m.second.has_job(); });
  };
  const auto gained = [&](uint64_t times) {
    wire::FromStore m;
    m.mutable_space()->set_photos(10);
    m.mutable_space()->set_gained(times);
    say(kA, m);
    lanes_.run();
  };
  EXPECT_EQ(times_asked(), 1);
  gained(1);
  EXPECT_EQ(times_asked(), 2);
  EXPECT_THAT(service_.log(job), Contains("store a has photos that another store had"));
  gained(1);
  EXPECT_EQ(times_asked(), 2) << "it was said already";
  leave(kA);
  greet(kA, "a");
  EXPECT_EQ(times_asked(), 3);
  gained(7);
  EXPECT_EQ(times_asked(), 3) << "said at the beginning of a session it is no news";
}

TEST_F(JobStores, StartNowGoesOnWithoutThoseThatAreNotReady) {
  leave(kC);
  const uint64_t job = submit();
  inventory(kA, job);
  service_.start_now(job);
  lanes_.run();
  EXPECT_TRUE(begun(job));
  EXPECT_THAT(service_.log(job), Contains(AllOf(HasSubstr("begins without b (20 photos, lists"),
                                                HasSubstr("c (30 photos, away"))));
  EXPECT_THAT(refusal([&] { service_.start_now(job); }), HasSubstr("waits for no store"));
}

TEST_F(JobStores, StartNowBeforeAnybodyIsReadyBeginsWithTheFirst) {
  const uint64_t job = submit();
  service_.start_now(job);
  EXPECT_FALSE(begun(job));
  inventory(kB, job);
  EXPECT_TRUE(begun(job));
}

TEST_F(JobStores, ForgettingAStoreEndsTheWaitForIt) {
  leave(kC);
  const uint64_t job = submit();
  for (const LinkId link : {kA, kB}) inventory(link, job);
  service_.forget("c");
  service_.tick();
  lanes_.run();
  EXPECT_TRUE(begun(job));
  for (const LinkId link : {kA, kB}) deliver(link);
  EXPECT_FALSE(result(job).contains("left_out_stores"));
}

TEST_F(JobStores, ADrainedOneIsNamedAndAJobThatNeedsItSaysSo) {
  service_.drain("c", true);
  const uint64_t all = submit();
  for (const LinkId link : {kA, kB}) inventory(link, all);
  EXPECT_TRUE(begun(all));
  EXPECT_THAT(service_.log(all), Contains("begins without c (30 photos, drained)"));
  service_.cancel(all);
  service_.drain("c", false);
  service_.drain("c", true);  // now
  const uint64_t three = submit(3);
  for (const LinkId link : {kA, kB}) inventory(link, three);
  EXPECT_FALSE(begun(three));
  wait(2);
  EXPECT_THAT(service_.log(three).back(),
              HasSubstr("waits for c (30 photos, drained); ndtrain store drain c --undo"));
  service_.drain("c", false);
  inventory(kC, three);
  EXPECT_TRUE(begun(three));
}

TEST_F(JobStores, NamedOnesTakePartAndOthersAreNotAsked) {
  StoreSelection meant;
  meant.names = {"a", "c"};
  const uint64_t job = submit(meant);
  EXPECT_FALSE(asked(kB, job));
  for (const LinkId link : {kA, kC}) inventory(link, job);
  EXPECT_TRUE(begun(job));
  for (const LinkId link : {kA, kC}) deliver(link);
  ASSERT_EQ(service_.job(job).state, JobState::kDone);
  EXPECT_FALSE(result(job).contains("left_out_stores")) << "nobody asked for b";
  meant.names = {"attik"};
  EXPECT_THAT(refusal([&] { submit(meant); }),
              HasSubstr("has met no store 'attik'; it knows a, b, c"));
}

TEST_F(JobStores, ANumberLeavesTheOthersOutByName) {
  const uint64_t job = submit(2);
  for (const LinkId link : {kC, kB}) inventory(link, job);
  EXPECT_FALSE(begun(job)) << "not the first that answer";
  inventory(kA, job);
  EXPECT_TRUE(begun(job));
  for (const LinkId link : {kA, kB}) deliver(link);
  ASSERT_EQ(service_.job(job).state, JobState::kDone);
  EXPECT_EQ(result(job).at("left_out_stores").at(0).at("store"), "c");
}

TEST_F(JobStores, ADeterministicJobFailsWithoutAKnownStoreUnlessThoseMeantAreNamed) {
  leave(kC);
  wait(31);
  const uint64_t job = submit({}, true);
  EXPECT_EQ(service_.job(job).state, JobState::kFailed);
  EXPECT_THAT(service_.job(job).message,
              AllOf(HasSubstr("without c (30 photos, away"), HasSubstr("--stores")));
  service_.resume(job, R"({"stores": ["a", "b"]})");
  lanes_.run();
  for (const LinkId link : {kA, kB}) inventory(link, job);
  EXPECT_TRUE(begun(job));
  service_.cancel(job);
  const uint64_t two = submit(2, true);
  EXPECT_EQ(service_.job(two).state, JobState::kFailed) << "which two, nobody has said";
}

TEST_F(JobStores, ADeterministicJobIsNotHurried) {
  leave(kC);
  const uint64_t job = submit({}, true);
  for (const LinkId link : {kA, kB}) inventory(link, job);
  EXPECT_THAT(refusal([&] { service_.start_now(job); }), HasSubstr("--stores"));
  EXPECT_EQ(service_.job(job).state, JobState::kRunning);
  wait(30);
  EXPECT_EQ(service_.job(job).state, JobState::kFailed);
}

TEST_F(JobStores, ATunerThatStartsAgainWaitsForTheStoresItHasMet) {
  wait(1);  // what is new of stores is written once a second
  TunerService next({fs_, clock_, state_, links_, lanes_, works_, models_, versions_},
                    state_.next_term(1).or_throw());
  ASSERT_EQ(next.stores().size(), 3U);
  EXPECT_EQ(next.stores()[2].photos, 30U);
  EXPECT_FALSE(next.stores()[2].here);
  next.submit({.model = to_hex(model_)});
  lanes_.run();
  EXPECT_THAT(next.doing(1), AllOf(HasSubstr("waits for a (10 photos, away for 0 s)"),
                                   HasSubstr("c (30 photos, away for 0 s)")));
}

TEST_F(JobStores, PhotosThatNobodyCouldReadAreCountedAsLeftOut) {
  const uint64_t job = submit();
  inventory(kA, job, 4);  // files that are no photos
  inventory(kB, job);
  inventory(kC, job);
  deliver(kA);
  deliver(kB);
  deliver(kC, false);
  ASSERT_EQ(service_.job(job).state, JobState::kDone) << service_.job(job).message;
  EXPECT_EQ(result(job).at("left_out"), 5);
  EXPECT_THAT(service_.job(job).message, HasSubstr("without 5 photos of its stores"));
}

TEST_F(JobStores, AStoreThatWasMetAfterTheJobBeganIsNamedAtItsEnd) {
  const uint64_t job = submit();
  for (const auto& [link, name] : names_) inventory(link, job);
  greet(4, "d");
  photos(4, 40);
  EXPECT_THAT(service_.log(job), Contains("store d is too late for this job"));
  for (const auto& [link, name] : names_) deliver(link);
  ASSERT_EQ(service_.job(job).state, JobState::kDone);
  EXPECT_EQ(result(job).at("left_out_stores").at(0).at("photos"), 40);
}

TEST_F(JobStores, WhenAStoreWasLastSeenMovesAsItIsHeard) {
  const int64_t before = service_.stores()[0].last_seen;
  wait(100);
  EXPECT_EQ(service_.stores()[0].last_seen, before + 100);
  leave(kA);
  wait(7);
  EXPECT_EQ(service_.stores()[0].last_seen, before + 100);
}

TEST_F(JobStores, OfWhichOneMakesNoViewsIsRefusedByItsName) {
  const auto submit_viewed = [&](const std::vector<std::string>& names) {
    JobSpec spec{.model = to_hex(model_)};
    spec.stores.names = names;
    spec.augmentation.flip = true;
    spec.views = 2;
    const uint64_t job = service_.submit(spec);
    lanes_.run();
    return job;
  };
  wire::FromStore hello;
  hello.mutable_hello()->add_protocols(kProtocols[0]);
  hello.mutable_hello()->set_store("new");
  hello.mutable_hello()->set_makes_views(true);
  service_.handle({9, LinkOpened{"a host", ""}});
  service_.handle({9, hello});
  const uint64_t able = submit_viewed({"new"});
  EXPECT_NE(service_.job(able).state, JobState::kFailed) << service_.job(able).message;
  service_.cancel(able);
  lanes_.run();
  const uint64_t job = submit_viewed({});
  EXPECT_EQ(service_.job(job).state, JobState::kFailed);
  EXPECT_THAT(service_.job(job).message,
              AllOf(HasSubstr("store a "), HasSubstr("makes no views of photos: upgrade it"),
                    HasSubstr("ndtrain store drain a")));
}

TEST_F(JobStores, OfWhichOneDoesNotSayWhatPhotosLookLikeIsRefusedByItsName) {
  JobSpec spec{.model = to_hex(model_)};
  spec.group_duplicates = true;
  const uint64_t job = service_.submit(spec);
  lanes_.run();
  EXPECT_EQ(service_.job(job).state, JobState::kFailed);
  EXPECT_THAT(service_.job(job).message,
              AllOf(HasSubstr("store a "), HasSubstr("does not say which photos look the same"),
                    HasSubstr("ndtrain store drain a"), HasSubstr("leave group_duplicates away")));
}

}  // namespace
}  // namespace ndtrain::tuner
