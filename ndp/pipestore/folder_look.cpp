// What a PipeStore's inventory makes of changes in the photo directory, between the scans of jobs.
#include <algorithm>
#include <unordered_set>

#include "framework/core/digest_hash.h"
#include "framework/core/thread_pool.h"
#include "framework/runtime/backend.h"
#include "ndp/photos/places_source.h"
#include "ndp/photos/upload_path.h"
#include "ndp/pipestore/photo_inventory.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kPhotosOfAPage = 256;  // between two looks at whether to stop
constexpr size_t kEntriesOfAPage = 10'000;
constexpr int64_t kWrittenJustNow = 2;  // seconds
constexpr int64_t kNanoseconds = 1'000'000'000;

// Photos that nobody writes just now, going by their time, but for those that are known to be
// finished, as uploads are, which appear whole. The others count as places that cannot be looked
// at.
class SettledPhotos final : public PhotoSource {
 public:
  SettledPhotos(PhotoSource& source, const std::set<std::string>& finished, int64_t now,
                const std::function<bool()>& stopping)
      : source_(source), finished_(finished), now_(now), stopping_(stopping) {}

  Result<PhotoPage> list(const std::string& cursor, size_t limit) override {
    if (stopping_()) return Status(Code::kCancelled, "a look at the photo directory was ended");
    Result<PhotoPage> page = source_.list(cursor, limit);
    if (!page.ok()) return page;
    std::erase_if(page->photos, [&](const PhotoRef& p) {
      const int64_t age = now_ - p.mtime_ns / kNanoseconds;
      const bool just_now = age >= -kWrittenJustNow && age <= kWrittenJustNow;
      const bool whole = finished_.contains(p.path) || is_upload_path(p.path);
      const bool unfinished = just_now && !whole;
      if (unfinished) {
        unfinished_.push_back(p.path);
        page->problems.push_back({p.path, "is being written"});
      }
      return unfinished;
    });
    return page;
  }
  Result<std::string> open(const std::string& path) override { return source_.open(path); }

  std::vector<std::string> take_unfinished() { return std::move(unfinished_); }

 private:
  PhotoSource& source_;
  const std::set<std::string>& finished_;
  const int64_t now_;
  const std::function<bool()>& stopping_;
  std::vector<std::string> unfinished_;
};

bool can_be_found(const PhotoChange& c) { return c.digest && c.state == PhotoState::kOk; }

}  // namespace

// A mount that is away leaves an empty directory.
Status PhotoInventory::is_there() {
  if (config_.gained) return {};  // others may have all of them by now
  const Result<PhotoPage> first = DirectorySource(fs_, config_.photos).list("", 1);
  if (!first.ok()) return first.status();
  if (collection_ <= 0 || !first->photos.empty()) return {};
  return {Code::kNotFound, "all " + std::to_string(collection_) + " photos are gone from " +
                               config_.photos + "; is it mounted?"};
}

// What is there when the directory is looked at for the very first time is what jobs are for.
ScanOptions PhotoInventory::options_for(std::vector<PhotoChange>& changes) {
  ScanOptions options;
  options.far = is_far();
  if (fetched_) options.on_read = [this](const auto& part) { return keep(part); };
  if (!config_.found) return options;
  options.on_change = [&changes](const PhotoChange& c) { changes.push_back(c); };
  if (catalogue_->scanned().or_throw()) {
    options.on_end = [this, &changes] { return take_found(changes); };
  }
  return options;
}

bool PhotoInventory::keep(std::span<const PhotoRead> part) const {
  for (const PhotoRead& p : part) {
    if (in_shard(p.entry.ref.path) && !photos_.is_upload(p.entry.ref.path)) {
      fetched_->keep(*p.entry.digest, p.file);
    }
  }
  return true;
}

Status PhotoInventory::take_found(std::span<const PhotoChange> changes) const {
  std::vector<FoundPhoto> found;
  std::unordered_set<Digest, DigestHash> once;
  for (const PhotoChange& c : changes) {
    if (!can_be_found(c) || !in_shard(c.path) || photos_.is_upload(c.path)) continue;
    if (!wire::is_photo_path(c.path) || !once.insert(*c.digest).second) continue;
    found.push_back({.id = *c.digest, .path = c.path, .is_new = c.new_bytes});
  }
  return found.empty() ? Status() : config_.found(found);
}

Result<FolderLook> PhotoInventory::follow(const DirectoryChanges& changes, Clock& clock,
                                          const std::function<bool()>& stopping) {
  const std::lock_guard lock(mutex_);
  const Result<bool> scanned = catalogue_->scanned();
  if (!scanned.ok()) return scanned.status();
  const bool all = changes.all || !*scanned;
  if (Status s = all ? is_there() : fs_.info(config_.photos).status(); !s.ok()) return s;
  std::vector<std::string> places;
  if (!all) {
    places.assign(changes.files.begin(), changes.files.end());
    places.insert(places.end(), changes.places.begin(), changes.places.end());
    if (places.empty()) return FolderLook();
  }
  PlacesSource some(fs_, config_.photos, places);
  PhotoSource& source = all ? static_cast<PhotoSource&>(photos_) : some;
  // The first time all is taken as it is: what is held back then would be new later.
  SettledPhotos settled(source, changes.files, *scanned ? clock.unix_seconds() : 0, stopping);
  std::vector<PhotoChange> told;
  ScanOptions options = options_for(told);
  options.page = kPhotosOfAPage;
  options.places = std::move(places);
  const Result<ScanReport> report = catalogue_->scan(settled, shared_threads(), options);
  if (!report.ok()) return report.status();
  if (all && config_.gained) gained_ = config_.gained();
  FolderLook look{.moved = report->moved,
                  .gone = report->missing + report->deleted,
                  .unfinished = settled.take_unfinished(),
                  .changed = !told.empty()};
  std::vector<Digest> deleted;
  std::unordered_set<Digest, DigestHash> once;
  for (const PhotoChange& c : told) {
    look.unreadable += c.state == PhotoState::kQuarantined;
    if (!can_be_found(c) || !in_shard(c.path)) continue;
    if (is_deleted(*c.digest)) {
      deleted.push_back(*c.digest);
    } else if (!is_upload_path(c.path)) {  // those were labelled when they came
      look.found += *scanned && c.new_bytes && once.insert(*c.digest).second;
    }
  }
  forget(deleted);
  return look;
}

void PhotoInventory::count() {
  const std::lock_guard lock(mutex_);
  const int64_t uploaded = uploads();
  std::unordered_set<Digest, DigestHash> photos;
  int64_t collection = 0;
  for (std::string after;;) {
    const auto page = catalogue_->entries_after(after, kEntriesOfAPage).or_throw();
    if (page.empty()) break;
    after = page.back().ref.path;
    for (const CatalogueEntry& e : page) {
      if (e.state != PhotoState::kOk || !e.digest) continue;
      collection += !photos_.is_upload(e.ref.path);
      if (in_shard(e.ref.path) && wire::is_photo_path(e.ref.path)) photos.insert(*e.digest);
    }
  }
  // Those since the last scan are no entries yet.
  for (std::string cursor = photos_.first_upload(); !cursor.empty();) {
    const PhotoPage page = photos_.list(cursor, kEntriesOfAPage).or_throw();
    for (const PhotoRef& p : page.photos) {
      if (const auto photo = photo_of_upload_path(p.path)) photos.insert(*photo);
    }
    cursor = page.next;
  }
  std::erase_if(photos, [this](const Digest& p) { return in_trash(p) || is_deleted(p); });
  collection_ = collection;
  set_size(photos.size(), uploaded);
}

}  // namespace ndtrain::ndp
