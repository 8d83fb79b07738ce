// One process at a time writes a shared state, and one that has lost its lease changes nothing.
#include "ndp/postgres/state_lease.h"

#include <gmock/gmock.h>

#include <thread>

#include "framework/testing/fsync_throws.h"
#include "ndp/labels/label_db.h"
#include "tests/postgres/state_fixture.h"

namespace ndtrain::testing_state {
namespace {

using support::bytes_of;
using ::testing::HasSubstr;

using SharedLease = StateTest;

TEST_F(SharedLease, IsOneProcessesUntilItIsGivenBackAndCountsItsTerms) {
  EXPECT_EQ(StateLease::look(url).or_throw().term, 0);
  {
    const Holder first(url, "process 71 on attic");
    EXPECT_EQ(first.lease->term(), 1);
    const LeaseRow row = StateLease::look(url).or_throw();
    EXPECT_TRUE(row.held);
    const auto second = StateLease::take({.url = url, .holder = "process 72 on barn"});
    EXPECT_EQ(second.status().code(), Code::kExists);
    EXPECT_THAT(second.status().message(), HasSubstr("held by process 71 on attic"));
  }
  EXPECT_FALSE(StateLease::look(url).or_throw().held);
  EXPECT_EQ(Holder(url).lease->term(), 2);
}

TEST_F(SharedLease, IsRenewedWhileItsHolderLives) {
  const Holder holder(url, "one", std::chrono::milliseconds(2500));
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ASSERT_TRUE(StateLease::look(url).or_throw().held);
  }
}

TEST_F(SharedLease, OfTwoWhoTakeAtOnceOneHasIt) {
  for (int round = 0; round < 5; ++round) {
    std::vector<std::unique_ptr<StateLease>> taken(4);
    {
      std::vector<std::jthread> takers;
      for (size_t i = 0; i < taken.size(); ++i) {
        takers.emplace_back([&, i] {
          auto lease = StateLease::take({.url = url, .holder = std::to_string(i)});
          if (lease.ok()) taken[i] = std::move(*lease);
        });
      }
    }
    EXPECT_EQ(std::ranges::count_if(taken, [](const auto& l) { return l != nullptr; }), 1);
  }
}

// Its renewals are far apart, so that it is its writes that find the takeover.
TEST_F(SharedLease, WhatAnEarlierTermWritesIsRefusedAndEndsItsProcess) {
  auto old =
      StateLease::take({.url = url, .holder = "old", .renewed = std::chrono::hours(1)}).or_throw();
  const auto files = PostgresFs::open(old->url()).or_throw();
  support::write_file(*files, "f", "old");
  const auto open = files->open("f", Fs::Mode::kAppend).or_throw();
  const auto labels = open_label_db(old->url(), OpenLabelDb::kMake).or_throw();
  const int64_t task = labels->task("t").or_throw();
  run_out();
  // The old term's connections are ended when the next is taken: then writes fail, and it may be
  // that of a connection that is made after.
  const Holder next(url, "new");
  const LeaseThrows throws;
  const FsyncThrows fsync_throws;
  EXPECT_THROW(static_cast<void>(open->append(bytes_of("late")).ok()), FsyncFailed);
  const std::vector<std::string> name{"late"};
  EXPECT_THROW(static_cast<void>(labels->class_ids(task, name).ok()), LeaseLost);
  using Write = std::function<Status(Fs&)>;
  for (const auto& write : std::vector<Write>{
           [](Fs& fs) { return fs.open("f", Fs::Mode::kAppend).status(); },
           [](Fs& fs) { return fs.open("g", Fs::Mode::kCreate).status(); },
           [](Fs& fs) { return fs.remove("f"); }, [](Fs& fs) { return fs.rename("f", "g"); },
           [](Fs& fs) { return fs.make_directories("d"); }}) {
    const auto late = PostgresFs::open(old->url()).or_throw();
    EXPECT_THROW(static_cast<void>(write(*late).ok()), LeaseLost);
  }
  const auto late_labels = [&] { return open_label_db(old->url(), OpenLabelDb::kExisting); };
  EXPECT_THROW(static_cast<void>(late_labels().ok()), LeaseLost);
  EXPECT_EQ(next.fs->read("f").or_throw(), "old");
  EXPECT_FALSE(next.fs->exists("g"));
  const auto now = open_label_db(next.lease->url(), OpenLabelDb::kExisting).or_throw();
  EXPECT_EQ(now->task("t").or_throw(), task);
}

TEST_F(SharedLease, AWriteThatWasUnderWayAtTheTakeoverHoldsNobodyUp) {
  auto old =
      StateLease::take({.url = url, .holder = "old", .renewed = std::chrono::hours(1)}).or_throw();
  Connection paused(old->url(), "SET jit = off");
  paused.start("BEGIN; SELECT pg_advisory_xact_lock(1313100876)");  // as one that writes labels
  paused.execute("CREATE TABLE left_behind (n BIGINT)");
  run_out();
  const Holder next(url, "new");
  const auto labels = open_label_db(next.lease->url(), OpenLabelDb::kMake).or_throw();
  EXPECT_TRUE(labels->task("t").ok());
  const LeaseThrows throws;
  EXPECT_THROW(paused.commit(), sql::Failure) << "its connection is gone";
  EXPECT_FALSE(paused.connected());
  paused.start("BEGIN; CREATE TABLE left_behind (n BIGINT)");
  EXPECT_THROW(paused.commit(), LeaseLost);
}

TEST_F(SharedLease, AUrlWithOptionsIsRefusedWithTheRemedy) {
  const auto lease = StateLease::take({.url = url + "&options=-c%20jit%3Doff", .holder = "one"});
  EXPECT_EQ(lease.status().code(), Code::kUnsupported);
  EXPECT_THAT(lease.status().message(), HasSubstr("ALTER ROLE"));
}

TEST_F(SharedLease, ATableOfAnotherFormatIsRefused) {
  { const Holder holder(url); }
  Connection(url, "SET jit = off").execute("UPDATE ndtrain_state.lease SET format = 2");
  EXPECT_THAT(StateLease::look(url).status().message(), HasSubstr("has format 2"));
}

TEST_F(SharedLease, AHolderThatCannotRenewEnds) {
  EXPECT_EXIT(
      {
        const Holder holder(url, "one", std::chrono::milliseconds(1500));
        run_out();
        const Holder next(url, "two");
        std::this_thread::sleep_for(std::chrono::seconds(10));
      },
      ::testing::ExitedWithCode(kLeaseLostStatus), "another has taken the state over");
}

}  // namespace
}  // namespace ndtrain::testing_state
