#include "tuner/service/store_registry.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "framework/core/log.h"
#include "ndp/http/http_client.h"
#include "ndp/http/tokens.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/protocol.h"
#include "tuner/ingest/row_ingest.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// Turns may be much shorter, and stores many.
constexpr StoreRegistry::Time kCount = std::chrono::milliseconds(100);
constexpr StoreRegistry::Time kWrite = std::chrono::seconds(1);

KnownStore as_known(const StoreRecord& s) {
  return {.photos = s.photos,
          .last_seen = s.last_seen,
          .deletions = s.deletions,
          .drained = s.drained,
          .collection = s.collection,
          .link = s.link,
          .wrong_features = s.wrong_features};
}

}  // namespace

bool StoreRecord::runs(uint64_t number) const {
  return std::ranges::any_of(in_force,
                             [&](const auto& of_task) { return of_task.second == number; });
}

std::string StoreRecord::query() const {
  return process_of(name) == name ? "" : "?collection=" + url_encoded(collection);
}

// A store has a while to come back when the Tuner has started again.
StoreRegistry::StoreRegistry(Setting setting, TunerSessions sessions, StoreEvents& events)
    : setting_(std::move(setting)),
      sessions_(std::move(sessions)),
      events_(events),
      known_(setting_.fs, setting_.directory) {
  for (const auto& [name, store] : known_.all()) {
    stores_[name] = {.name = name,
                     .collection = store.collection,
                     .photos = store.photos,
                     .drained = store.drained,
                     .wrong_features = store.wrong_features,
                     .last_seen = store.last_seen,
                     .counted = now(),
                     .link = store.link,
                     .deletions = store.deletions};
  }
}

void StoreRegistry::handle(LinkEvent<wire::FromStore> event) {
  if (const auto* opened = std::get_if<LinkOpened>(&event.what)) {
    apply(sessions_.opened(now(), event.link, *opened));
  } else if (const auto* closed = std::get_if<LinkClosed>(&event.what)) {
    apply(sessions_.closed(event.link, closed->reason));
  } else {
    auto& message = std::get<wire::FromStore>(event.what);
    if (const Status s = wire::admit(message); !s.ok()) {
      return apply(sessions_.refuse(now(), event.link, s.message()));
    }
    TunerSessions::Actions actions = sessions_.message(now(), event.link, message);
    const std::optional<std::string> store = actions.deliver;
    apply(std::move(actions));
    if (store) events_.message(*store, std::move(message));
  }
}

void StoreRegistry::tick() {
  apply(sessions_.tick(now()));
  if (known_.noted() && now() >= write_at_) write();
  if (now() < count_at_) return;
  count_at_ = now() + kCount;
  for (auto& [name, store] : stores_) {
    const Time since = now() - store.counted;
    store.counted = now();
    if (!store.here || store.drained) store.away += std::min(since, RowIngest::kStep);
  }
}

void StoreRegistry::apply(TunerSessions::Actions actions) {
  for (const std::string& warning : actions.warnings) log::warn("{}", warning);
  for (const auto& [store, reason] : actions.left) left(store, reason);
  for (auto& [link, message] : actions.send) setting_.links.send(link, std::move(message));
  for (const LinkId link : actions.close) setting_.links.close(link);
  if (actions.arrived) arrived(*actions.arrived);
}

void StoreRegistry::arrived(const wire::Hello& hello) {
  StoreRecord& store = stores_[hello.store()];
  store.name = hello.store();
  store.numerics = hello.numerics();
  store.version = hello.version();
  store.collection =
      hello.collection().empty() ? std::string(kDefaultCollection) : hello.collection();
  store.photos = hello.photos();
  store.in_force = {{std::string(kDefaultTask), hello.version_in_force()}};
  for (const wire::InForce& v : hello.tasks()) store.in_force[v.task()] = v.version();
  const auto speaks = [&](uint32_t of) {
    return std::ranges::any_of(hello.protocols(), [of](uint32_t p) { return p >= of; });
  };
  store.speaks_of_tasks = speaks(kSpeaksOfTasks);
  store.takes_jobs_at_once = speaks(kSpeaksOfJobsAtOnce);
  store.here = true;
  store.last_seen = setting_.clock.unix_seconds();
  keep(store);
  log::info("store {} is here", store.name);
  store.takes_tokens = hello.takes_tokens();
  store.takes_task_tokens = hello.takes_task_tokens();
  store.takes_tickets = hello.takes_tickets();
  store.takes_probes = hello.takes_probes();
  store.makes_views = hello.makes_views();
  store.gives_photos = hello.gives_photos();
  store.tells_hashes = hello.tells_hashes();
  send_tokens(store);
  events_.arrived(hello);
}

void StoreRegistry::left(const std::string& name, const std::string& reason) {
  StoreRecord& store = stores_[name];
  store.here = false;
  store.last_seen = setting_.clock.unix_seconds();
  if (!store.drained) store.away = Time(0);
  store.counted = now();
  keep(store);
  log::info("store {} has left: {}", name, reason);
  events_.left(name, reason);
}

void StoreRegistry::send(const std::string& store, wire::ToStore message) {
  const std::optional<LinkId> link = sessions_.link_of(store);
  if (!link) return;
  sessions_.stamp(now(), *link, message);
  setting_.links.send(*link, std::move(message));
}

size_t StoreRegistry::waiting(const std::string& store) const {
  const std::optional<LinkId> link = sessions_.link_of(store);
  return link ? setting_.links.waiting(*link) : 0;
}

void StoreRegistry::refuse(const std::string& store, const std::string& why) {
  apply(sessions_.refuse(now(), store, why));
}

std::vector<StoreRecord> StoreRegistry::as_of_now() const {
  std::vector<StoreRecord> all;
  for (const auto& [name, store] : stores_) {
    StoreRecord& record = all.emplace_back(store);
    const std::optional<Time> heard = sessions_.heard(name);
    if (!heard) continue;
    const auto silent = std::chrono::duration_cast<std::chrono::seconds>(now() - *heard);
    record.last_seen = setting_.clock.unix_seconds() - silent.count();
  }
  return all;
}

void StoreRegistry::keep(const StoreRecord& s) {
  const auto it = known_.all().find(s.name);
  const bool known = it != known_.all().end();
  const bool same = known && it->second.photos == s.photos && it->second.collection == s.collection;
  if (!same || !s.here) note(s);
}

void StoreRegistry::note(const StoreRecord& s) {
  known_.note(s.name, as_known(s));
  if (now() >= write_at_) write();
}

void StoreRegistry::write() {
  write_at_ = now() + kWrite;
  const Status s = known_.write();
  if (!s.ok() && !std::exchange(unwritten_, true)) {
    log::warn("what is new of stores will not be known after a restart of this Tuner: {}",
              s.message());
  }
  if (s.ok()) unwritten_ = false;
}

StoreRegistry::Time StoreRegistry::next() const {
  return known_.noted() ? std::min(sessions_.next(), write_at_) : sessions_.next();
}

void StoreRegistry::measured(const std::string& name, const LinkSpeed& link) {
  StoreRecord& store = stores_[name];
  store.link = link;
  note(store);
}

StoreRecord& StoreRegistry::met(const std::string& name) {
  const auto it = stores_.find(name);
  if (it == stores_.end()) throw Error("there is no store '", name, "'");
  return it->second;
}

bool StoreRegistry::drain(const std::string& name, bool drained) {
  StoreRecord& store = met(name);
  if (store.drained == drained) return false;
  KnownStore known = as_known(store);
  known.drained = drained;
  known.wrong_features.clear();
  if (const Status s = known_.put(name, known); !s.ok()) {
    throw Error("store '", name, "' stays ", drained ? "at work" : "drained", ": ", s.message(),
                "; make room on the Tuner's volume and say it again");
  }
  if (store.here) store.away = Time(0);
  store.counted = now();
  store.drained = drained;
  store.wrong_features.clear();
  return true;
}

void StoreRegistry::distrust(const std::string& name, const std::string& why) {
  StoreRecord& store = met(name);
  log::error("{}; it is drained", why);
  if (store.here) store.away = Time(0);
  store.counted = now();
  store.drained = true;
  store.wrong_features = why;
  if (const Status s = known_.put(name, as_known(store)); !s.ok()) {
    log::error("store {} is drained until this Tuner stops, since that cannot be kept: {}", name,
               s.message());
  }
}

void StoreRegistry::forget(const std::string& name) {
  if (met(name).here) throw Error("store '", name, "' is here; stop it first");
  if (const Status s = known_.forget(name); !s.ok()) {
    throw Error("store '", name, "' is not forgotten: ", s.message(),
                "; make room on the Tuner's volume and say it again");
  }
  stores_.erase(name);
}

void StoreRegistry::set_tokens(const std::string& json) {
  tokens_ = json;
  for (const auto& [name, store] : stores_) send_tokens(store);
}

void StoreRegistry::send_tokens(const StoreRecord& store) {
  if (tokens_.empty() || !store.here || !store.takes_tokens) return;
  const std::string json = store.takes_task_tokens ? tokens_ : without_tokens_of_tasks(tokens_);
  wire::ToStore m;
  m.mutable_tokens()->set_json(json);
  m.mutable_tokens()->set_checksum(xxh3(json.data(), json.size()));
  if (setting_.ticket_key && store.takes_tickets) {
    m.mutable_tokens()->set_ticket_key(setting_.ticket_key(store.name));
  }
  send(store.name, std::move(m));
}

}  // namespace ndtrain::tuner
