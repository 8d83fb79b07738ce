// The stores that a Tuner knows, and its sessions with them: who is here, for how long others have
// been away, what is sent to whom. What makes a store known is durable a second later at most, and
// before the next job is taken. One thread, the service's.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "ndp/wire/grpc_link.h"
#include "ndp/wire/tuner_sessions.h"
#include "tuner/service/known_stores.h"

namespace ndtrain::tuner {
using namespace ndp;

struct StoreRecord {
  uint64_t version_in_force(const std::string& task = std::string(kDefaultTask)) const {
    const auto it = in_force.find(task);
    return it == in_force.end() ? 0 : it->second;
  }
  bool runs(uint64_t version) const;  // it is in force of its task
  // What a request at its HTTP says besides, as "?collection=NAME": others may share that with it;
  // "" of one that is alone.
  std::string query() const;

  std::string name, numerics, version;                       // version: of the program
  std::string collection = std::string(kDefaultCollection);  // that its photos are in
  uint64_t photos = 0;
  uint64_t damaged = 0;  // photos whose files a disk has changed there, as it said last
  bool here = false, drained = false;
  std::string wrong_features;                // not empty: why it was drained
  std::map<std::string, uint64_t> in_force;  // versions, by task; of the default one always
  bool speaks_of_tasks = false;              // else it runs the default one alone
  uint64_t model_bytes = 0;                  // of models and deltas, sent to it by this process
  int64_t last_seen = 0;  // Unix seconds; of one that is here, when it was last heard
  // How long it has been away or drained, as of `counted`; of what was before this process began
  // nothing.
  std::chrono::nanoseconds away{0}, counted{0};
  bool takes_jobs_at_once = false;  // else it makes rows for the last one it was asked
  bool takes_task_tokens = false;   // tokens of one task, too
  bool takes_tokens = false, takes_tickets = false, takes_probes = false;
  bool makes_views = false;   // of photos: wire::Job::Views
  bool gives_photos = false;  // to other stores, through the Tuner
  bool tells_hashes = false;  // of photos: wire::Job::with_hashes
  LinkSpeed link;
  std::string http;          // where people may upload to it; "": nowhere
  std::string http_refused;  // where it says that they may, and is not believed
  uint64_t free = 0;         // bytes, for uploads
  uint64_t deletions = 0;    // photos it has let go of; `deletions_due`: still has to
  uint64_t deletions_due = 0;
};

// Who hears of sessions, in the middle of a call of the registry's.
class StoreEvents {
 public:
  virtual void arrived(const wire::Hello& hello) = 0;
  virtual void left(const std::string& store, const std::string& reason) = 0;
  virtual void message(const std::string& store, wire::FromStore message) = 0;

 protected:
  ~StoreEvents() = default;
};

class StoreRegistry {
 public:
  using Time = TunerSessions::Time;

  struct Setting {
    Fs& fs;
    Clock& clock;
    std::string directory;  // of the state
    LinkServer& links;
    // By which a store knows the Tuner's tickets (ndp/http/tickets.h); absent: there are none.
    std::function<std::string(const std::string& store)> ticket_key = {};
  };

  // Throws Error when what is known of stores cannot be read.
  StoreRegistry(Setting setting, TunerSessions sessions, StoreEvents& events);

  void handle(LinkEvent<wire::FromStore> event);
  void tick();
  Time next() const;

  // Nothing for a store that is not here.
  void send(const std::string& store, wire::ToStore message);
  // Ends its session because of what it sent.
  void refuse(const std::string& store, const std::string& why);
  std::optional<LinkId> link_of(const std::string& store) const { return sessions_.link_of(store); }
  size_t waiting(const std::string& store) const;  // bytes sent to it that are not written yet
  LinkOpened who(const std::string& store) const { return sessions_.who(store); }
  std::vector<std::string> here() const { return sessions_.stores(); }  // in byte order

  StoreRecord& record(const std::string& store) { return stores_[store]; }
  std::map<std::string, StoreRecord>& all() { return stores_; }
  const std::map<std::string, StoreRecord>& all() const { return stores_; }
  std::vector<StoreRecord> as_of_now() const;
  // Over a restart, too, from a second later or write() on. What changes all the time is kept when
  // the store leaves.
  void keep(const StoreRecord& store);
  void write();

  void measured(const std::string& store, const LinkSpeed& link);

  // Until it is said again, or the store is forgotten. False: it was so. Throws Error.
  bool drain(const std::string& store, bool drained);
  // Drains it since its features are wrong, which people are told until it is given work again.
  // Over a restart where that can be kept.
  void distrust(const std::string& store, const std::string& why);
  void forget(const std::string& store);  // throws Error for one that is here

  // Who may ask for what (ndp/http/tokens.h): stores go by it too, while the Tuner is away as well.
  void set_tokens(const std::string& json);
  bool has_tokens() const { return !tokens_.empty(); }

 private:
  Time now() const { return setting_.clock.monotonic(); }
  void apply(TunerSessions::Actions actions);
  void arrived(const wire::Hello& hello);
  void left(const std::string& store, const std::string& reason);
  void note(const StoreRecord& store);
  void send_tokens(const StoreRecord& store);
  StoreRecord& met(const std::string& store);  // throws Error when nobody has

  Setting setting_;
  TunerSessions sessions_;
  StoreEvents& events_;
  KnownStores known_;
  std::map<std::string, StoreRecord> stores_;
  Time count_at_{0};        // how long stores have been away, when next
  Time write_at_{0};        // what is known of stores, at the earliest
  bool unwritten_ = false;  // people were told that it could not be
  std::string tokens_;      // "": none were made
};

}  // namespace ndtrain::tuner
