// The Tuner's side of the handshake, against what stores should and should not send.
#include "ndp/wire/tuner_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ndp/wire/protocol.h"
#include "tests/wire/peers.h"

namespace ndtrain::ndp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Time = Liveness::Time;

wire::FromStore greeting(wire::Hello h) {
  for (uint32_t p : kProtocols) h.add_protocols(p);
  wire::FromStore m;
  *m.mutable_hello() = std::move(h);
  return m;
}

// What a Tuner answers to a Hello on a fresh link.
wire::ToStore answer(TunerSessions& t, wire::Hello h, LinkId link = 1, Time now = seconds(0),
                     const std::string& certified = "") {
  t.opened(now, link, {.peer = "somewhere", .certified = certified});
  const auto a = t.message(now, link, greeting(std::move(h)));
  return a.send.at(0).second;
}

TEST(TunerSessions, WelcomesAStoreWithTheTerm) {
  TunerSessions t = tuner();
  const wire::ToStore m = answer(t, hello("a"));
  ASSERT_TRUE(m.has_welcome());
  EXPECT_EQ(m.term(), 7u);
  EXPECT_EQ(m.welcome().protocol(), kProtocols[0]);
  EXPECT_THAT(t.stores(), ElementsAre("a"));
}

TEST(TunerSessions, KnowsStoresOfOneProcessByItsCertificate) {
  TunerSessions t = tuner();
  EXPECT_TRUE(answer(t, hello("family@attic"), 1, seconds(0), "attic").has_welcome());
  EXPECT_TRUE(answer(t, hello("garden@attic"), 2, seconds(0), "attic").has_welcome());
  EXPECT_THAT(t.stores(), ElementsAre("family@attic", "garden@attic"));
  for (const char* other : {"family", "family@attic", "cellar"}) {
    const wire::ToStore m = answer(t, hello("family@attic"), 3, seconds(0), other);
    EXPECT_EQ(m.refusal().reason(), wire::Refusal::NOT_ALLOWED) << other;
  }
}

TEST(StoreNames, AreOfOneAloneOrOfACollectionInAProcess) {
  const std::string half(kStoreNameBytes / 2, 'a');
  EXPECT_EQ(store_in_process("family", "attic"), "family@attic");
  for (const std::string& good :
       {std::string("attic"), std::string("family@attic"), std::string("a.b@c-d_e"),
        std::string(kStoreNameBytes, 'a'), half.substr(1) + "@" + half}) {
    EXPECT_TRUE(names_store(good)) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("@"), std::string("family@"), std::string("@attic"),
        std::string("a@b@c"), std::string("a@.b"), std::string("-a@b"), std::string("a b@c"),
        half + "@" + half, std::string(kStoreNameBytes + 1, 'a')}) {
    EXPECT_FALSE(names_store(bad)) << bad;
  }
  EXPECT_EQ(process_of("family@attic"), "attic");
  EXPECT_EQ(process_of("attic"), "attic");
}

TEST(TunerSessions, RefusesTheCertificateOfAMember) {
  TunerSessions t = tuner();
  t.opened(seconds(0), 1, {.peer = "somewhere", .certified = "a", .role = LinkRole::kMember});
  const auto a = t.message(seconds(0), 1, greeting(hello("a")));
  EXPECT_EQ(a.send.at(0).second.refusal().reason(), wire::Refusal::NOT_ALLOWED);
  EXPECT_THAT(a.send.at(0).second.refusal().text(),
              HasSubstr("the certificate is of 'a', a member of a training, not of a PipeStore"));
  EXPECT_THAT(t.stores(), ElementsAre());
}

TEST(TunerSessions, OfMembersRefuseTheCertificateOfAStore) {
  TunerSessions t({.id = "tuner", .term = 7}, kHeartbeat, kWindow, LinkRole::kMember);
  t.opened(seconds(0), 1, {.peer = "somewhere", .certified = "a", .role = LinkRole::kStore});
  const auto a = t.message(seconds(0), 1, greeting(hello("a")));
  EXPECT_EQ(a.send.at(0).second.refusal().reason(), wire::Refusal::NOT_ALLOWED);
  EXPECT_THAT(a.send.at(0).second.refusal().text(),
              HasSubstr("the certificate is of 'a', not of a member of a training"));
  t.opened(seconds(0), 2, {.peer = "somewhere", .certified = "a", .role = LinkRole::kMember});
  EXPECT_TRUE(t.message(seconds(0), 2, greeting(hello("a"))).send.at(0).second.has_welcome());
}

TEST(TunerSessions, RefusesASecondStoreOfTheSameNameWhileTheFirstIsHeard) {
  TunerSessions t = tuner();
  answer(t, hello("a", 1), 1);
  const wire::ToStore m = answer(t, hello("a", 2), 2, seconds(2));
  EXPECT_EQ(m.refusal().reason(), wire::Refusal::STORE_TAKEN);
  EXPECT_THAT(m.refusal().text(), HasSubstr("somewhere"));
  EXPECT_EQ(t.link_of("a"), 1u);
  EXPECT_TRUE(answer(t, hello("a", 2), 3, seconds(3)).has_welcome()) << "silent for a heartbeat";
  EXPECT_EQ(t.link_of("a"), 3u);
}

TEST(TunerSessions, TheSameProcessTakesItsOldPlaceAtOnce) {
  TunerSessions t = tuner();
  answer(t, hello("a", 1), 1);
  t.opened(seconds(1), 2, {});
  const auto a = t.message(seconds(1), 2, greeting(hello("a", 1)));
  ASSERT_EQ(a.left.size(), 1u);
  EXPECT_TRUE(a.arrived);
  EXPECT_THAT(a.close, ElementsAre(1u));
  EXPECT_FALSE(t.message(seconds(1), 1, wire::FromStore()).deliver) << "the old link is deaf";
}

TEST(TunerSessions, RefusesAStoreThatHasSeenANewerTerm) {
  TunerSessions t = tuner(7);
  wire::Hello h = hello("a");
  h.set_tuner("tuner");
  h.set_newest_term(8);
  EXPECT_EQ(answer(t, h).refusal().reason(), wire::Refusal::OLD_TERM);
  h.set_tuner("another");
  EXPECT_TRUE(answer(t, h, 2).has_welcome()) << "whose term was that?";
}

TEST(TunerSessions, RefusesAStoreThatHasSeenAnotherStartOfTheSameTerm) {
  TunerSessions t({.id = "tuner", .term = 7, .start = 11}, kHeartbeat, kWindow);
  wire::Hello h = hello("a");
  h.set_tuner("tuner");
  h.set_newest_term(7);
  h.set_newest_start(12);
  const wire::ToStore m = answer(t, h);
  EXPECT_EQ(m.refusal().reason(), wire::Refusal::TWIN);
  EXPECT_THAT(m.refusal().text(), AllOf(HasSubstr("term is 7"), HasSubstr("stop the copy")));
  h.set_newest_term(6);
  EXPECT_TRUE(answer(t, h, 2).has_welcome()) << "that was an earlier start";
  h.set_newest_term(7);
  h.set_newest_start(11);
  EXPECT_EQ(answer(t, h, 3, seconds(20)).welcome().start(), 11u);
}

TEST(TunerSessions, BelievesAStoreThatDoesNotSayWhichStartItHasSeen) {
  TunerSessions t({.id = "tuner", .term = 7, .start = 11}, kHeartbeat, kWindow);
  wire::Hello h = hello("a");
  h.set_tuner("tuner");
  h.set_newest_term(7);
  EXPECT_TRUE(answer(t, h).has_welcome()) << "an earlier program, or one that was upgraded since";
}

TEST(TunerSessions, RefusesACertificateOfAnotherName) {
  TunerSessions t = tuner();
  const auto m = answer(t, hello("a"), 1, seconds(0), "b");
  EXPECT_EQ(m.refusal().reason(), wire::Refusal::NOT_ALLOWED);
  EXPECT_TRUE(answer(t, hello("b"), 2, seconds(0), "b").has_welcome());
}

TEST(TunerSessions, RefusesProtocolsItDoesNotSpeak) {
  TunerSessions t = tuner();
  t.opened(seconds(0), 1, {});
  wire::FromStore m;
  *m.mutable_hello() = hello("a");
  m.mutable_hello()->add_protocols(99);
  const auto a = t.message(seconds(0), 1, m);
  EXPECT_EQ(a.send.at(0).second.refusal().reason(), wire::Refusal::PROTOCOL);
  EXPECT_THAT(a.close, ElementsAre(1u));
}

TEST(TunerSessions, RefusesNamesThatAreNone) {
  for (const std::string& name : {std::string(), std::string("a/b"), std::string(".."),
                                  std::string("-x"), std::string(65, 'a'), std::string("a b")}) {
    TunerSessions t = tuner();
    EXPECT_EQ(answer(t, hello(name)).refusal().reason(), wire::Refusal::BAD_MESSAGE) << name;
  }
  TunerSessions t = tuner();
  EXPECT_TRUE(answer(t, hello(std::string(64, 'a'))).has_welcome());
}

TEST(TunerSessions, RefusesWhatComesBeforeHelloASecondHelloAndUnknownKinds) {
  wire::FromStore ping, unknown;
  ping.mutable_ping();
  TunerSessions t = tuner();
  t.opened(seconds(0), 1, {});
  EXPECT_THAT(t.message(seconds(0), 1, ping).close, ElementsAre(1u));
  for (LinkId link : {2, 3}) {
    answer(t, hello("a", link), link, seconds(10 * static_cast<int64_t>(link)));
    const auto a = t.message(seconds(10 * static_cast<int64_t>(link)), link,
                             link == 2 ? greeting(hello("a")) : unknown);
    EXPECT_EQ(a.send.at(0).second.refusal().reason(), wire::Refusal::BAD_MESSAGE);
    EXPECT_EQ(a.left.at(0).first, "a");
  }
}

TEST(TunerSessions, DropsMessagesOfAnotherTerm) {
  TunerSessions t = tuner(7);
  answer(t, hello("a"));
  wire::FromStore m;
  m.mutable_run_done();
  m.set_term(6);
  EXPECT_FALSE(t.message(seconds(1), 1, m).deliver);
  m.set_term(7);
  EXPECT_EQ(t.message(seconds(1), 1, m).deliver, "a");
}

TEST(TunerSessions, PingsAndGivesUpWhoIsSilent) {
  TunerSessions t = tuner();
  answer(t, hello("a"));
  t.opened(seconds(0), 2, {});  // never greets
  EXPECT_TRUE(t.tick(seconds(2)).send.empty());
  EXPECT_TRUE(t.tick(seconds(3)).send.at(0).second.has_ping());
  EXPECT_TRUE(t.tick(seconds(6)).left.empty());
  const auto a = t.tick(seconds(9));
  EXPECT_THAT(a.close, ElementsAre(1u, 2u));
  ASSERT_EQ(a.left.size(), 1u);
  EXPECT_THAT(a.left[0].second, HasSubstr("silent for 9 s"));
  EXPECT_EQ(t.next(), Time::max());
}

// Each at the time of its own, whatever the others do.
TEST(TunerSessions, PingsEachStoreWhenItHasHeardNothingForAHeartbeat) {
  constexpr LinkId kStores = 50;
  TunerSessions t = tuner();
  std::map<LinkId, Time> said;
  for (LinkId link = 1; link <= kStores; ++link) {
    said[link] = milliseconds(40 * link);
    t.opened(said[link], link, {});
    ASSERT_TRUE(
        t.message(said[link], link, greeting(hello("store" + std::to_string(link)))).arrived);
  }
  for (Time now = milliseconds(40 * (kStores + 1)); now < seconds(30); now = t.next()) {
    std::set<LinkId> pinged;
    for (const auto& [link, m] : t.tick(now).send) pinged.insert(link);
    for (auto& [link, last] : said) {
      EXPECT_EQ(pinged.contains(link), now - last >= seconds(3)) << link;
      if (pinged.contains(link)) last = now;
      wire::FromStore ping;
      ping.mutable_ping();
      t.message(now, link, ping);
    }
    ASSERT_GT(t.next(), now);
  }
  EXPECT_EQ(t.stores().size(), kStores);
}

TEST(TunerSessions, TimeThatTheTunerStoodStillIsNobodysSilence) {
  TunerSessions t = tuner();
  answer(t, hello("a"));
  EXPECT_TRUE(t.tick(seconds(1)).left.empty());
  EXPECT_TRUE(t.tick(seconds(60)).left.empty()) << "56 s more than a heartbeat";
  EXPECT_EQ(t.next(), seconds(63));
  EXPECT_TRUE(t.tick(seconds(63)).left.empty());
  EXPECT_EQ(t.tick(seconds(66)).left.size(), 1U) << "it was heard at 0, of 66 s 56 do not count";
}

}  // namespace
}  // namespace ndtrain::ndp
