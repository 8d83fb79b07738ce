// Both sides of the handshake, against each other.
#include <gtest/gtest.h>

#include <deque>

#include "framework/core/rng.h"
#include "ndp/wire/store_session.h"
#include "tests/wire/peers.h"

namespace ndtrain::ndp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Time = Liveness::Time;

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
