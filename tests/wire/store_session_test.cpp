// A store's side of the handshake, against what Tuners should and should not send.
#include "ndp/wire/store_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ndp/wire/protocol.h"
#include "tests/wire/peers.h"

namespace ndtrain::ndp {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Time = Liveness::Time;

wire::ToStore welcome(uint64_t term, const std::string& id = "tuner", uint64_t start = 0) {
  wire::ToStore m;
  m.set_term(term);
  m.mutable_welcome()->set_protocol(kProtocols[0]);
  m.mutable_welcome()->set_tuner(id);
  m.mutable_welcome()->set_start(start);
  m.mutable_welcome()->set_heartbeat_ms(3000);
  m.mutable_welcome()->set_window(1000);
  return m;
}

// A session that has dialled and said Hello.
StoreSession greeted(TunerIdentity known = {}) {
  StoreSession s(hello("a"), std::move(known), 1);
  EXPECT_TRUE(s.tick(seconds(0)).dial);
  EXPECT_TRUE(s.opened(seconds(0)).send.at(0).has_hello());
  return s;
}

TEST(StoreSession, RemembersATermBeforeItUsesIt) {
  StoreSession s = greeted();
  const auto a = s.message(seconds(1), welcome(4));
  EXPECT_EQ(a.remember, (TunerIdentity{"tuner", 4}));
  EXPECT_TRUE(s.open());
  EXPECT_EQ(s.window(), 1000u);
  StoreSession again = greeted({"tuner", 4});
  EXPECT_FALSE(again.message(seconds(1), welcome(4)).remember) << "nothing new";
}

TEST(StoreSession, RefusesAnOldTunerAndSaysBothTerms) {
  StoreSession s = greeted({"tuner", 5});
  const auto a = s.message(seconds(1), welcome(4));
  EXPECT_TRUE(a.close);
  EXPECT_THAT(a.note, HasSubstr("its term is 4, 5 has been seen"));
  EXPECT_FALSE(s.open());
  EXPECT_GE(s.next(), seconds(1) + StoreSession::kLastRetry / 2) << "no hurry";
  StoreSession other = greeted({"tuner", 5});
  EXPECT_TRUE(other.message(seconds(1), welcome(1, "a new one")).remember);
}

TEST(StoreSession, RefusesATwinOfItsTunerUntilThatHasANewerTerm) {
  const TunerIdentity known{"tuner", 5, 11};
  StoreSession s = greeted(known);
  const auto a = s.message(seconds(1), welcome(5, "tuner", 12));
  EXPECT_TRUE(a.close);
  EXPECT_FALSE(a.remember);
  EXPECT_THAT(a.note, AllOf(HasSubstr("another Tuner of the same term"),
                            HasSubstr("start this one again, which gives it a newer term")));
  EXPECT_GE(s.next(), seconds(1) + StoreSession::kLastRetry / 2) << "no hurry";
  StoreSession same = greeted(known);
  (void)same.message(seconds(1), welcome(5, "tuner", 11));
  EXPECT_TRUE(same.open());
  StoreSession newer = greeted(known);
  EXPECT_EQ(newer.message(seconds(1), welcome(6, "tuner", 12)).remember,
            (TunerIdentity{"tuner", 6, 12}));
}

TEST(StoreSession, RefusesATwinThatDoesNotSayWhichStartItIs) {
  StoreSession s = greeted({"tuner", 5, 11});
  EXPECT_TRUE(s.message(seconds(1), welcome(5)).close);
  EXPECT_FALSE(s.open()) << "the start that it has seen was of a program that says so";
}

TEST(StoreSession, LearnsTheStartOfATunerWhoseTermItKnowsFromAnEarlierProgram) {
  StoreSession s = greeted({"tuner", 5, 0});
  EXPECT_EQ(s.message(seconds(1), welcome(5, "tuner", 11)).remember,
            (TunerIdentity{"tuner", 5, 11}));
  EXPECT_TRUE(s.open());
}

constexpr int64_t kToday = 1'764'288'000;  // Unix seconds

// What it would follow it could not leave any more.
TEST(StoreSession, FollowsNoTermThatNoTunerHasComeTo) {
  StoreSession s(hello("a"), {"tuner", 5, 11}, 1, StoreSession::kLastRetry, [] { return kToday; });
  (void)s.tick(seconds(0));
  (void)s.opened(seconds(0));
  const auto refused = s.message(seconds(1), welcome(uint64_t{1} << 62));
  EXPECT_TRUE(refused.close);
  EXPECT_FALSE(refused.remember);
  EXPECT_EQ(refused.note.find("refused: the Tuner's term is 4611686018427387904, which no Tuner"),
            0U)
      << refused.note;
  EXPECT_TRUE(s.tick(s.next()).dial);
  (void)s.opened(s.next());
  EXPECT_EQ(s.message(s.next(), welcome(6)).remember, (TunerIdentity{"tuner", 6, 0}));
  EXPECT_TRUE(s.open()) << "the Tuner itself";
}

TEST(StoreSession, FollowsATunerThatWasRestored) {
  StoreSession s(hello("a"), {"tuner", 5, 11}, 1, StoreSession::kLastRetry, [] { return kToday; });
  (void)s.tick(seconds(0));
  (void)s.opened(seconds(0));
  (void)s.message(seconds(1), welcome(term_of_time(kToday)));
  EXPECT_TRUE(s.open());
}

TEST(StoreSession, SaysWhichTunerItHasSeen) {
  StoreSession s(hello("a"), {"tuner", 5, 11}, 1);
  EXPECT_TRUE(s.tick(seconds(0)).dial);
  const wire::Hello said = s.opened(seconds(0)).send.at(0).hello();
  EXPECT_EQ(said.tuner(), "tuner");
  EXPECT_EQ(said.newest_term(), 5u);
  EXPECT_EQ(said.newest_start(), 11u);
}

TEST(StoreSession, DropsLateMessagesOfAnotherTerm) {
  StoreSession s = greeted();
  (void)s.message(seconds(1), welcome(4));
  wire::ToStore m;
  m.mutable_ack();
  m.set_term(3);
  EXPECT_FALSE(s.message(seconds(1), m).deliver);
  m.set_term(4);
  EXPECT_TRUE(s.message(seconds(1), m).deliver);
}

TEST(StoreSession, WaitsLongerAndLongerAndNeverBeyondTheLastRetry) {
  StoreSession s(hello("a"), {}, 3);
  Time now = seconds(0), longest{0};
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(s.tick(now).dial);
    EXPECT_FALSE(s.tick(now).dial) << "one at a time";
    (void)s.closed(now, "connection refused");
    const Time wait = s.next() - now;
    EXPECT_LE(wait, StoreSession::kLastRetry);
    longest = std::max(longest, wait);
    now = s.next();
  }
  EXPECT_GE(longest, StoreSession::kLastRetry / 2);
}

TEST(StoreSession, OfSeveralAddressesIsDialledAgainSoonAlsoByWhoWasRefused) {
  StoreSession s(hello("a"), {"tuner", 9}, 3, StoreSession::kLastRetryOfSeveral);
  Time now = seconds(0);
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(s.tick(now).dial);
    (void)s.opened(now);
    const auto a = s.message(now, welcome(4));
    EXPECT_THAT(a.note, HasSubstr("an old Tuner answers"));
    EXPECT_LE(s.next() - now, StoreSession::kLastRetryOfSeveral);
    now = s.next();
  }
}

TEST(StoreSession, GivesUpASilentTuner) {
  StoreSession s = greeted();
  (void)s.message(seconds(1), welcome(4));
  EXPECT_TRUE(s.tick(seconds(4)).send.at(0).has_ping());
  EXPECT_FALSE(s.tick(seconds(7)).close);
  EXPECT_FALSE(s.tick(seconds(9)).close);
  const auto a = s.tick(seconds(10));
  EXPECT_TRUE(a.close);
  EXPECT_THAT(a.note, HasSubstr("silent"));
}

// Only an open session pings: a role that asked for a turn for one before would spin.
TEST(StoreSession, SleepsUntilItGivesUpWhileNobodyAnswers) {
  StoreSession s(hello("a"), {}, 1);
  EXPECT_TRUE(s.tick(seconds(0)).dial);
  EXPECT_EQ(s.next(), 3 * kHeartbeat) << "dialling";
  (void)s.opened(seconds(2));
  EXPECT_EQ(s.next(), seconds(2) + 3 * kHeartbeat) << "greeting";
  (void)s.message(seconds(3), welcome(4));
  EXPECT_EQ(s.next(), seconds(3) + kHeartbeat) << "open";
}

}  // namespace
}  // namespace ndtrain::ndp
