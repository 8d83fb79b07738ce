// The streams between PipeStores and the Tuner in simulated time. A stream is ordered and whole
// until it breaks; then the two ends have seen different parts of it, and learn of it at different
// times or not at all.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "ndp/wire/grpc_link.h"
#include "tests/sim/bugs.h"
#include "tests/sim/collection.h"
#include "tests/sim/machine.h"
#include "tests/sim/pipe.h"
#include "tests/sim/watch.h"
#include "tests/sim/wrong_tuner.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

class Network {
 public:
  // Where events go; turns of the machines.
  struct Ends {
    Machine* tuner = nullptr;
    std::array<Machine*, Collection::kStores> stores = {};
    std::function<void(LinkEvent<wire::FromStore>)> to_tuner;
    std::function<void(size_t store, LinkEvent<wire::ToStore>)> to_store;
  };

  Network(Timeline& timeline, uint64_t seed, Watch& watch, Bug bug);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  void connect(Ends ends) { ends_ = std::move(ends); }

  std::unique_ptr<LinkServer> server();  // of the Tuner's life that begins
  std::unique_ptr<LinkClient> dial(size_t store, LinkId id);
  void tuner_died();
  void store_died(size_t store);

  // Faults. False when there is nothing that they could strike.
  bool break_link(size_t store);
  bool delay(size_t store, Time until);
  void part(size_t store, Time until);
  bool corrupt_next_rows(size_t store);
  // A message of an earlier term comes once more.
  bool replay(size_t store);
  // Until then the store reaches a Tuner of an earlier term than it has seen, or of that very term.
  bool old_tuner(size_t store, Time until);
  bool twin_tuner(size_t store, Time until);

 private:
  struct Link {
    size_t store = 0;
    LinkId client = 0, server = 0;
    uint64_t store_life = 0, tuner_life = 0;
    bool client_open = true, server_open = false, greeted = false;
    std::shared_ptr<Pipe> up, down;
    bool wrong = false;                 // the Tuner that it leads to
    std::unique_ptr<WrongTuner> other;  // which is this, once it has heard a Hello
  };
  using LinkPtr = std::shared_ptr<Link>;
  class Client;
  class Server;

  Time a_moment() { return seconds(0.001 + 0.2 * rng_.next_uniform() * rng_.next_uniform()); }
  // How long it takes to notice that a stream is broken: often no time, else as long as silence.
  Time until_noticed() {
    return rng_.next_below(2) ? a_moment() : seconds(20 * rng_.next_uniform());
  }
  LinkPtr open_link(size_t store) const;

  void reach(const LinkPtr& link);
  void from_store(const LinkPtr& link, wire::FromStore message);
  void from_tuner(LinkId link, wire::ToStore message);
  void closed_by_tuner(LinkId id);
  void hang_up(const LinkPtr& link, bool graceful);
  void tell_tuner(const LinkPtr& link, std::variant<LinkOpened, wire::FromStore, LinkClosed> what);
  void tell_store(const LinkPtr& link, std::variant<LinkOpened, wire::ToStore, LinkClosed> what);
  void tell_wrong_tuner(const LinkPtr& link, const wire::FromStore& message);
  std::unique_ptr<WrongTuner> make_wrong_tuner(size_t store);
  bool mislead(size_t store, Time until, bool twin);
  bool reachable(const Link& link) const;
  void cut(const LinkPtr& link, bool tell_tuner_too, bool tell_store_too);

  Timeline& timeline_;
  Rng rng_;
  Watch& watch_;
  Bug bug_;
  Ends ends_;
  LinkId ids_ = 0;
  uint64_t tuner_life_ = 0, newest_term_ = 0;
  std::vector<LinkPtr> links_;
  std::array<Time, Collection::kStores> parted_until_ = {}, wrong_until_ = {};
  std::array<bool, Collection::kStores> twin_ = {};  // the wrong one has the term of the right one
  std::array<TunerIdentity, Collection::kStores> known_;  // as stores have said
  std::array<bool, Collection::kStores> corrupt_ = {};
  // The last messages of this term, and of the one before.
  std::array<std::deque<wire::FromStore>, Collection::kStores> up_, old_up_;
  std::array<std::deque<wire::ToStore>, Collection::kStores> down_, old_down_;
};

}  // namespace ndtrain::sim
