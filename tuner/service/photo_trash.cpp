#include "tuner/service/photo_trash.h"

#include <algorithm>
#include <utility>

#include "framework/core/log.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/protocol.h"
#include "tuner/service/service_lanes.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr PhotoTrash::Time kTrashRetry = std::chrono::seconds(2);
constexpr int64_t kLook = 3600;          // seconds; a clock may be set meanwhile
constexpr size_t kTrashedAtOnce = 4096;  // photos in one message

}  // namespace

PhotoTrash::PhotoTrash(Ports ports) : ports_(std::move(ports)), log_(ports_.fs, ports_.directory) {
  for (const auto& [photo, entry] : log_.photos()) due_.insert(photo);
  due_.insert(log_.restored().begin(), log_.restored().end());
  changed();
}

void PhotoTrash::changed() {
  soonest_ = INT64_MAX;
  for (const auto& [photo, entry] : log_.photos()) soonest_ = std::min(soonest_, entry.until);
}

PhotoDeletions::Deletion PhotoTrash::put(std::vector<TrashedPhoto> photos) {
  std::erase_if(photos, [this](const TrashedPhoto& p) { return ports_.deletions.has(p.photo); });
  std::vector<Digest> all;
  for (const TrashedPhoto& p : photos) all.push_back(p.photo);
  log_.put(std::move(photos)).or_throw();
  due_.insert(all.begin(), all.end());
  changed();
  tell_all(all, {});
  pump();
  PhotoDeletions::Deletion d;
  for (const auto& [name, store] : ports_.stores.all()) {
    (store.here ? d.told : d.away).push_back(name);
  }
  return d;
}

Status PhotoTrash::restore(std::span<const Digest> photos, uint64_t revision) {
  std::vector<Digest> back;
  for (const Digest& photo : photos) {
    if (would_restore(photo, revision)) back.push_back(photo);
  }
  if (back.empty()) return {};
  if (Status s = log_.restore(back); !s.ok()) return s;
  log::info("{} photos are restored from the trash", back.size());
  due_.insert(back.begin(), back.end());
  changed();
  tell_all({}, back);
  pump();
  return {};
}

bool PhotoTrash::would_restore(const Digest& photo, uint64_t revision) const {
  const auto at = log_.photos().find(photo);
  return at != log_.photos().end() && at->second.revision <= revision;
}

void PhotoTrash::greet(const wire::Hello& hello) {
  const auto& protocols = hello.protocols();
  if (std::ranges::find(protocols, kSpeaksOfTrash) == protocols.end()) {
    understand_.erase(hello.store());
    return;
  }
  understand_.insert(hello.store());
  // What a store was told in its last session it may keep only after it has said Hello in this one.
  if (log_.revision() == 0 && hello.trash() == 0) return;
  std::vector<Digest> all;
  for (const auto& [photo, entry] : log_.photos()) all.push_back(photo);
  tell(hello.store(), all, {}, true);
}

void PhotoTrash::tell_all(std::span<const Digest> photos, std::span<const Digest> restored) {
  for (const std::string& store : ports_.stores.here()) {
    if (understand_.contains(store)) tell(store, photos, restored, false);
  }
}

void PhotoTrash::tell(const std::string& store, std::span<const Digest> photos,
                      std::span<const Digest> restored, bool whole) {
  const auto some = [](std::span<const Digest>& from, std::string& to) {
    const size_t n = std::min(kTrashedAtOnce, from.size());
    for (const Digest& photo : from.first(n)) to.append(bytes_of(photo));
    from = from.subspan(n);
  };
  do {
    wire::ToStore message;
    wire::Trash& t = *message.mutable_trash();
    some(photos, *t.mutable_photos());
    some(restored, *t.mutable_restored());
    t.set_revision(log_.revision());
    t.set_whole(whole);
    t.set_last(photos.empty() && restored.empty());
    ports_.stores.send(store, std::move(message));
  } while (!photos.empty() || !restored.empty());
}

void PhotoTrash::pump() {
  if (stopping_) return;
  take_leave();
  keep_labels();
}

// First they are deleted, durably and told to all; then they leave the trash, and no store has them
// in between.
void PhotoTrash::take_leave() {
  if (now() < again_at_) return;
  const int64_t time = ports_.clock.unix_seconds();
  const bool look = ports_.deletions.size() != deletions_;
  if (soonest_ > time && !look) return;
  std::vector<Digest> over, deleted;
  for (const auto& [photo, entry] : log_.photos()) {
    if (entry.until <= time) over.push_back(photo);
    if (entry.until <= time || (look && ports_.deletions.has(photo))) deleted.push_back(photo);
  }
  Status s = delete_for_good(over);
  if (s.ok()) s = log_.gone(deleted);
  if (!s.ok()) {
    if (again_at_ == Time(0)) log::warn("photos stay in the trash for now: {}", s.message());
    again_at_ = now() + kTrashRetry;
    return;
  }
  if (!over.empty())
    log::info("{} photos of the trash are deleted, their time is over", over.size());
  deletions_ = ports_.deletions.size();
  changed();
  if (!deleted.empty()) tell_all({}, deleted);
}

// The audit log says so first, and once, also where the list cannot be written for a while.
Status PhotoTrash::delete_for_good(std::span<const Digest> photos) {
  if (photos.empty()) return {};
  std::vector<AuditLine> lines;
  for (const Digest& photo : photos) {
    if (audited_.contains(photo)) continue;
    lines.push_back({.who = "trash",
                     .what = "deletion",
                     .request = "DELETE /photos/" + to_hex(photo) + ": its time is over"});
  }
  if (ports_.audit && !lines.empty()) {
    if (Status s = ports_.audit->add(lines); !s.ok()) return s;
  }
  audited_.insert(photos.begin(), photos.end());
  if (Status s = ports_.deletions.add(photos); !s.ok()) return s;
  audited_.clear();
  return {};
}

void PhotoTrash::keep_labels() {
  if (keeping_ || due_.empty() || now() < again_at_) return;
  std::vector<Digest> in, out;
  for (const Digest& photo : due_) {
    if (has(photo)) in.push_back(photo);
    if (log_.restored().contains(photo)) out.push_back(photo);
  }
  keeping_ = true;
  ports_.lanes.start(kUploadLane,
                     [this, in, out, asked = std::exchange(due_, {})]() -> Continuation {
                       Status s;
                       if (ports_.uploads && !in.empty()) s = ports_.uploads->put_in_trash(in);
                       if (ports_.uploads && s.ok() && !out.empty())
                         s = ports_.uploads->restore_from_trash(out);
                       return [this, asked, s] { labels_kept(asked, s); };
                     });
}

void PhotoTrash::labels_kept(const std::set<Digest>& photos, const Status& status) {
  keeping_ = false;
  Status s = status;
  if (s.ok()) {
    std::vector<Digest> settled;  // what has changed again since is due once more
    for (const Digest& photo : photos) {
      if (log_.restored().contains(photo) && !due_.contains(photo)) settled.push_back(photo);
    }
    s = log_.gone(settled);
  }
  if (!s.ok()) {
    due_.insert(photos.begin(), photos.end());
    if (again_at_ == Time(0)) log::warn("the labels of the trash wait: {}", s.message());
  }
  again_at_ = s.ok() ? Time(0) : now() + kTrashRetry;
  pump();
}

PhotoTrash::Time PhotoTrash::next() const {
  if (stopping_) return Time::max();
  const Time at = again_at_ > Time(0) && !keeping_ ? again_at_ : Time::max();
  if (log_.photos().empty()) return at;
  const int64_t wait = std::clamp<int64_t>(soonest_ - ports_.clock.unix_seconds(), 0, kLook);
  return std::min(at, std::max(now() + std::chrono::seconds(wait), again_at_));
}

}  // namespace ndtrain::tuner
