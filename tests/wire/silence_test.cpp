// A Tuner and a PipeStore that stand still for a while, in virtual time: who is given up, and when.
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
using Time = Liveness::Time;

constexpr milliseconds kTurn{100};  // of either role's loop, at least so often

struct Pause {
  Time from = Time::max(), to = Time::max();
  bool holds(Time now) const { return from <= now && now < to; }
};

// Who wakes looks at the clock before it reads what came meanwhile: the worse order of the two.
class Pair {
 public:
  Pair() {
    (void)store_.tick(Time(0));
    tuner_.opened(Time(0), 1, {.peer = "somewhere"});
    for (auto& m : store_.opened(Time(0)).send) to_tuner_.push_back(std::move(m));
  }

  // When somebody gives the other up; absent: nobody does up to `until`.
  std::optional<Time> run(Time until, const Pause& store, const Pause& tuner = {}) {
    for (Time now(0); now < until; now += kTurn) {
      if (!tuner.holds(now) && turn_of_tuner(now)) return now;
      if (!store.holds(now) && turn_of_store(now)) return now;
    }
    return std::nullopt;
  }

 private:
  bool take(TunerSessions::Actions a) {
    for (auto& [link, m] : a.send) to_store_.push_back(std::move(m));
    return !a.left.empty();
  }
  bool take(StoreSession::Actions a) {
    for (auto& m : a.send) to_tuner_.push_back(std::move(m));
    return a.close;
  }
  bool turn_of_tuner(Time now) {
    if (take(tuner_.tick(now))) return true;
    for (; !to_tuner_.empty(); to_tuner_.pop_front()) {
      if (take(tuner_.message(now, 1, to_tuner_.front()))) return true;
    }
    return false;
  }
  bool turn_of_store(Time now) {
    if (take(store_.tick(now))) return true;
    for (; !to_store_.empty(); to_store_.pop_front()) {
      if (take(store_.message(now, to_store_.front()))) return true;
    }
    return false;
  }

  static wire::Hello hello() {
    wire::Hello h;
    h.set_store("attic");
    h.set_incarnation(1);
    return h;
  }

  TunerSessions tuner_{{.id = "tuner", .term = 7}, kHeartbeat, kWindow};
  StoreSession store_{hello(), {}, 1};
  std::deque<wire::FromStore> to_tuner_;
  std::deque<wire::ToStore> to_store_;
};

// Of all moments between heartbeats.
std::vector<Time> moments() {
  std::vector<Time> all;
  for (Time t = seconds(10); t < seconds(10) + 2 * kHeartbeat; t += kTurn) all.push_back(t);
  return all;
}

TEST(Silence, OfAStoreThatStandsStillIsNoticedWithinTenSeconds) {
  EXPECT_FALSE(Pair().run(seconds(600), {})) << "nobody is silent";
  for (const Time from : moments()) {
    const auto noticed = Pair().run(seconds(60), {.from = from});
    ASSERT_TRUE(noticed);
    EXPECT_LE(*noticed - from, seconds(10)) << from.count();
  }
}

TEST(Silence, OfATunerIsNoticedWithinTenSecondsToo) {
  for (const Time from : moments()) {
    const auto noticed = Pair().run(seconds(60), {}, {.from = from});
    ASSERT_TRUE(noticed);
    EXPECT_LE(*noticed - from, seconds(10)) << from.count();
  }
}

TEST(Silence, OfSomeSecondsIsNoEndForEither) {
  for (const Time from : moments()) {
    const Pause pause{.from = from, .to = from + 2 * kHeartbeat - 2 * kTurn};
    EXPECT_FALSE(Pair().run(seconds(60), pause)) << from.count();
    EXPECT_FALSE(Pair().run(seconds(60), {}, pause)) << from.count();
    EXPECT_FALSE(Pair().run(seconds(60), pause, pause)) << from.count();
  }
}

// As when a machine that has both of them sleeps.
TEST(Silence, OfBothAtOnceIsNobodys) {
  for (const Time from : moments()) {
    const Pause pause{.from = from, .to = from + std::chrono::hours(1)};
    EXPECT_FALSE(Pair().run(from + std::chrono::hours(1) + seconds(60), pause, pause))
        << from.count();
  }
}

}  // namespace
}  // namespace ndtrain::ndp
