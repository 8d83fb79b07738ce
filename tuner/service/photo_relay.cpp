#include "tuner/service/photo_relay.h"

#include <utility>

#include "framework/core/log.h"
#include "ndp/wire/digests.h"

namespace ndtrain::tuner {
using namespace ndp;

void PhotoRelay::wanted(const std::string& store, const wire::PhotoWanted& wanted) {
  Asked asked{.wanted = wanted, .photo = *digest_of(wanted.sha256()), .why = "none that holds it"};
  if (wanted.offset() == 0) {
    log::info("store '{}': its disk has changed its upload {}, which is asked of others", store,
              to_hex(asked.photo));
  }
  ask(asked_.insert_or_assign(store, std::move(asked)).first);
}

void PhotoRelay::ask(Entry entry) {
  Asked& asked = entry->second;
  const std::string& store = entry->first;
  const bool gone = ports_.deletions.has(asked.photo) || ports_.trash.has(asked.photo);
  for (const auto& [name, other] : ports_.stores.all()) {
    if (gone || name == store || !other.here || !other.gives_photos) continue;
    if (other.collection != ports_.stores.record(store).collection) continue;
    if (!ports_.holders.holds(name, asked.photo) || !asked.tried.insert(name).second) continue;
    asked.holder = name;
    wire::ToStore m;
    *m.mutable_photo_wanted() = asked.wanted;
    return ports_.stores.send(name, std::move(m));
  }
  wire::ToStore m;
  wire::PhotoPart& none = *m.mutable_photo_part();
  none.set_sha256(asked.wanted.sha256());
  none.set_offset(asked.wanted.offset());
  none.set_failure(gone ? "it is deleted, or in the trash"
                        : "of the other stores that are here: " + asked.why);
  ports_.stores.send(store, std::move(m));
  asked_.erase(entry);
}

void PhotoRelay::part(const std::string& holder, wire::PhotoPart part) {
  for (auto it = asked_.begin(); it != asked_.end(); ++it) {
    Asked& asked = it->second;
    const bool meant = asked.holder == holder && asked.wanted.sha256() == part.sha256() &&
                       asked.wanted.offset() == part.offset();
    if (!meant) continue;
    if (!part.failure().empty()) {
      asked.why = holder + ": " + part.failure();
      return ask(it);
    }
    wire::ToStore m;
    *m.mutable_photo_part() = std::move(part);
    ports_.stores.send(it->first, std::move(m));
    asked_.erase(it);
    return;
  }
}

void PhotoRelay::left(const std::string& store) {
  asked_.erase(store);
  for (auto it = asked_.begin(); it != asked_.end();) {
    const auto next = std::next(it);
    if (it->second.holder == store) ask(it);
    it = next;
  }
}

}  // namespace ndtrain::tuner
