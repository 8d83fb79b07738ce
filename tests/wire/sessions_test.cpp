// Both sides of the handshake, against each other and against what neither should send.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "ndp/wire/protocol.h"
#include "ndp/wire/store_session.h"
#include "ndp/wire/tuner_sessions.h"

namespace ndtrain::ndp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Time = Liveness::Time;

wire::Hello hello(const std::string& store, uint64_t incarnation = 1) {
  wire::Hello h;
  h.set_store(store);
  h.set_incarnation(incarnation);
  h.set_version("0.1.0");
  return h;
}

wire::FromStore greeting(wire::Hello h) {
  for (uint32_t p : kProtocols) h.add_protocols(p);
  wire::FromStore m;
  *m.mutable_hello() = std::move(h);
  return m;
}

TunerSessions tuner(uint64_t term = 7) {
  return TunerSessions({.id = "tuner", .term = term}, kHeartbeat, kWindow);
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

// One Tuner, some stores, links that break at any moment and deliver late. Restarted Tuners take
// the next term. When the breaking stops, every store has a session of the newest term.
class World {
 public:
  explicit World(uint64_t seed) : rng_(seed, "sessions") {
    for (int i = 0; i < 3; ++i) {
      stores_.push_back({StoreSession(hello("store" + std::to_string(i), seed), {}, seed + i)});
    }
  }

  void run(int steps, bool faults) {
    for (int i = 0; i < steps; ++i) {
      now_ += milliseconds(rng_.next_bits() % 400);
      if (faults && rng_.next_bits() % 40 == 0) tuner_ = tuner(++term_);
      for (Store& s : stores_) step(s, faults);
      take(tuner_.tick(now_));
    }
  }

  bool settled() const {
    for (const Store& s : stores_) {
      if (!s.session.open() || s.session.known().term != term_) return false;
    }
    return tuner_.stores().size() == stores_.size();
  }

 private:
  struct Store {
    StoreSession session;
    LinkId link = 0;  // 0: none
    std::deque<wire::FromStore> up = {};
    std::deque<wire::ToStore> down = {};
  };

  void step(Store& s, bool faults) {
    if (faults && s.link && rng_.next_bits() % 12 == 0) drop(s, rng_.next_bits() % 3);
    take(s, s.session.tick(now_));
    if (s.link && !s.up.empty() && rng_.next_bits() % 2) {
      const wire::FromStore m = s.up.front();
      s.up.pop_front();
      take(tuner_.message(now_, s.link, m));
    }
    if (s.link && !s.down.empty() && rng_.next_bits() % 2) {
      const wire::ToStore m = s.down.front();
      s.down.pop_front();
      const uint64_t before = s.session.known().term;
      take(s, s.session.message(now_, m));
      EXPECT_GE(s.session.known().term, before);
    }
  }

  // Both ends may learn of it, or one, or neither until its heartbeats run out.
  void drop(Store& s, uint64_t who) {
    const LinkId link = std::exchange(s.link, 0);
    s.up.clear();
    s.down.clear();
    if (who != 1) take(s, s.session.closed(now_, "reset"));
    if (who != 2) take(tuner_.closed(link, "reset"));
  }

  void take(Store& s, StoreSession::Actions a) {
    for (wire::FromStore& m : a.send) s.up.push_back(std::move(m));
    if (a.close && s.link) drop_quietly(s);
    if (!a.dial) return;
    s.link = ++links_;
    s.up.clear();
    s.down.clear();
    take(tuner_.opened(now_, s.link, {.peer = "store"}));
    take(s, s.session.opened(now_));
  }
  void drop_quietly(Store& s) {
    const LinkId link = std::exchange(s.link, 0);
    if (rng_.next_bits() % 2) take(tuner_.closed(link, "closed by the store"));
  }
  void take(TunerSessions::Actions a) {
    for (auto& [link, m] : a.send) {
      for (Store& s : stores_) {
        if (s.link == link) s.down.push_back(std::move(m));
      }
    }
    for (LinkId link : a.close) {
      for (Store& s : stores_) {
        if (s.link != link) continue;
        while (!s.down.empty()) {  // a close is after what was sent
          const wire::ToStore m = s.down.front();
          s.down.pop_front();
          (void)s.session.message(now_, m);
        }
        s.link = 0;
        (void)s.session.closed(now_, "closed by the Tuner");
      }
    }
  }

  Rng rng_;
  Time now_ = seconds(1);
  uint64_t term_ = 1, links_ = 0;
  TunerSessions tuner_ = tuner(1);
  std::vector<Store> stores_;
};

TEST(Sessions, SettleWheneverTheFaultsStop) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    World world(seed);
    world.run(400, true);
    world.run(1200, false);
    ASSERT_TRUE(world.settled()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ndtrain::ndp
