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

// First those that said in an inventory that they hold it: of uploads since then nothing is known.
std::optional<std::string> PhotoRelay::next_holder(const std::string& store,
                                                   const Asked& asked) const {
  std::optional<std::string> any;
  const auto& stores = ports_.stores.all();
  for (const auto& [name, other] : stores) {
    if (name == store || !other.here || !other.gives_photos || asked.tried.contains(name)) continue;
    if (other.collection != stores.at(store).collection) continue;
    const Result<bool> holds = ports_.holders.holds(name, asked.photo);
    if (holds.ok() && *holds) return name;
    if (!any) any = name;
  }
  return any;
}

void PhotoRelay::ask(Entry entry) {
  Asked& asked = entry->second;
  const std::string& store = entry->first;
  const bool gone = ports_.deletions.has(asked.photo) || ports_.trash.has(asked.photo);
  const auto holder = gone ? std::nullopt : next_holder(store, asked);
  if (holder) {
    asked.holder = *holder;
    asked.tried.insert(*holder);
    wire::ToStore m;
    *m.mutable_photo_wanted() = asked.wanted;
    return ports_.stores.send(*holder, std::move(m));
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
