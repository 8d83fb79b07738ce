#include "ndp/pipestore/photo_inventory.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "framework/core/hash.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/core/text.h"
#include "ndp/jobs/photo_set.h"
#include "ndp/photos/decode.h"
#include "ndp/photos/object_url.h"
#include "ndp/photos/upload_path.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain::ndp {
namespace {

// Names that are too long, no UTF-8, or have control characters.
void warn_of(const char* what, const std::set<std::string>& names) {
  if (names.empty()) return;
  log::warn("{} {} are too long, no UTF-8, or have control characters: rename '{}'{}", names.size(),
            what, printable(*names.begin(), 256), names.size() == 1 ? "" : " and the others");
}

void add_unreadable(const QuarantinedPhoto& file, StoreInventory& to) {
  if (to.unreadable++ < uint64_t{wire::kUnreadableFiles}) to.unreadable_files.push_back(file);
}

}  // namespace

PhotoInventory::PhotoInventory(const PhotoRowConfig& config, Fs& fs)
    : config_(config),
      fs_(fs),
      photos_(fs, config.photos, config.state),
      catalogue_(open_catalogue(fs, config.cache, config.photos)) {
  say_what_was_found();
  const int64_t uploaded = uploads();
  set_size(look(), uploaded);
}

uint64_t PhotoInventory::size() const {
  return static_cast<uint64_t>(std::max<int64_t>(0, without_uploads_ + uploads()));
}

void PhotoInventory::set_size(size_t photos, int64_t uploads) {
  without_uploads_ = static_cast<int64_t>(photos) - uploads;
}

bool PhotoInventory::is_deleted(const Digest& photo) const {
  return config_.uploads && config_.uploads->feedback(photo).removed;
}

std::string PhotoInventory::label_of(const std::string& path) const {
  if (config_.labels == "none") return "";
  if (config_.labels != "folder") {
    const auto it = csv_.find(path);
    return it == csv_.end() ? "" : it->second;
  }
  if (is_upload_path(path)) return "";
  std::string_view rest = path;
  for (size_t slash; (slash = rest.find('/')) != std::string_view::npos;) {
    const std::string_view first = rest.substr(0, slash);
    if (first != "train" && first != "val") return std::string(first);
    rest.remove_prefix(slash + 1);
  }
  return "";
}

void PhotoInventory::say_what_was_found() {
  if (const int64_t n = photos_.left_by_older(); n > 0 && !said_older_) {
    said_older_ = true;
    log::info("{} photos in {} were uploaded to an older version; they stay in use, as no class", n,
              join(config_.photos, kUploadDirectory));
  }
  if (config_.labels != "none" || said_folders_) return;
  const std::string hint = class_folders_hint(fs_, config_.photos);
  said_folders_ = !hint.empty();
  if (said_folders_) log::info("{}: {}", config_.photos, hint);
}

// What was uploaded here is of this store, and nobody else's where it is on its disk.
bool PhotoInventory::in_shard(const std::string& path) const {
  if (photos_.is_upload(path) || xxh3(path.data(), path.size()) % config_.shards == config_.shard) {
    return true;
  }
  const std::optional<Digest> uploaded = photo_of_upload_path(path);
  if (!uploaded || !config_.uploads) return false;
  const std::optional<UploadLog::Known> known = config_.uploads->find(*uploaded);
  return known && known->uploaded;
}

// Of files that no scan has seen yet the name must do; of others copies count once, and bad ones
// not.
uint64_t PhotoInventory::look() {
  constexpr size_t kPage = 10'000;
  std::unordered_map<std::string, CatalogueEntry> seen;
  for (std::string after; true;) {
    auto page = catalogue_->entries_after(after, kPage).or_throw();
    if (page.empty()) break;
    after = page.back().ref.path;
    for (CatalogueEntry& e : page) {
      collection_ += e.state == PhotoState::kOk && !photos_.is_upload(e.ref.path);
      std::string path = e.ref.path;
      seen.emplace(std::move(path), std::move(e));
    }
  }
  std::set<Digest> photos;
  uint64_t unseen = 0;
  for (std::string cursor; true;) {
    const Result<PhotoPage> page = photos_.list(cursor, kPage);
    if (!page.ok()) {
      log::warn("{}: {}", config_.photos, page.status().message());
      return 0;
    }
    for (const PhotoRef& file : page->photos) {
      if (!in_shard(file.path)) continue;
      const auto e = seen.find(file.path);
      if (e == seen.end() || e->second.ref != file) {
        unseen += can_decode(format_of_extension(extension_of(file.path)));
      } else if (e->second.state == PhotoState::kOk && e->second.digest &&
                 !in_trash(*e->second.digest)) {
        photos.insert(*e->second.digest);
      }
    }
    if (page->next.empty()) return photos.size() + unseen;
    cursor = page->next;
  }
}

Status PhotoInventory::read_csv() {
  if (config_.labels == "folder" || config_.labels == "none") return {};
  const auto csv = read_labels_csv(fs_, config_.labels, config_.photos);
  if (!csv.ok()) return csv.status();
  csv_.clear();
  for (const LabelledPhotos::Item& i : csv->items) {
    csv_[i.path] = csv->classes[static_cast<size_t>(i.label)];
  }
  return {};
}

Result<StoreInventory> PhotoInventory::scan() {
  const std::lock_guard lock(mutex_);
  NoProgress quiet;
  if (Status s = read_csv(); !s.ok()) return s;
  if (Status s = is_there(); !s.ok()) return s;
  const int64_t uploaded = uploads();
  std::vector<PhotoChange> changes;
  const Result<PhotoSet> read =
      all_photos(photos_, *catalogue_, config_.photos, quiet, options_for(changes));
  if (!read.ok()) return read.status();
  const PhotoSet& set = *read;
  say_what_was_found();
  collection_ =
      std::ranges::count_if(set.photos, [&](const Photo& p) { return !photos_.is_upload(p.path); });
  StoreInventory inventory;
  for (const QuarantinedPhoto& p : set.quarantined) {
    if (in_shard(p.path)) add_unreadable(p, inventory);
  }
  std::vector<Digest> deleted;
  std::set<std::string> paths, labels;  // that cannot be said to a Tuner
  for (const Photo& p : set.photos) {
    if (!in_shard(p.path) || in_trash(p.digest)) continue;
    if (!wire::is_photo_path(p.path)) {
      paths.insert(p.path);
      continue;
    }
    const auto feedback =
        config_.uploads ? config_.uploads->feedback(p.digest) : UploadLog::Feedback();
    if (feedback.removed) {
      deleted.push_back(p.digest);
      continue;
    }
    const bool human = !feedback.truth.empty();
    std::string label = human ? feedback.truth : label_of(p.path);
    if (!label.empty() && !wire::is_class_name(label)) labels.insert(std::exchange(label, ""));
    inventory.photos.push_back({.digest = p.digest,
                                .path = p.path,
                                .label = label,
                                .source = human          ? LabelSource::kHuman
                                          : csv_.empty() ? LabelSource::kFolder
                                                         : LabelSource::kImport,
                                .bytes = p.bytes});
  }
  forget(deleted);
  for (const std::string& path : paths) {
    add_unreadable({path, "its name is no UTF-8 without control characters"}, inventory);
  }
  warn_of("photos are left out, since their names", paths);
  warn_of("labels are left out, since they", labels);
  std::ranges::stable_sort(inventory.photos, {}, &StorePhoto::digest);
  const auto same = [](const StorePhoto& p, const StorePhoto& q) { return p.digest == q.digest; };
  auto& photos = inventory.photos;
  photos.erase(std::unique(photos.begin(), photos.end(), same), photos.end());
  set_size(photos.size(), uploaded);
  return inventory;
}

void PhotoInventory::forget(std::span<const Digest> deleted) const {
  if (deleted.empty() || !config_.forget) return;
  const Status s = config_.forget(deleted);
  if (s.ok()) {
    log::info("{} files of deleted photos are removed from {}", deleted.size(), config_.photos);
  } else {
    log::warn("files of deleted photos stay for now, unused: {}", s.message());
  }
}

bool PhotoInventory::is_far() const { return is_object_url(config_.photos); }

Result<std::string> PhotoInventory::read(const StorePhoto& photo) const {
  if (fetched_) {
    if (std::optional<std::string> kept = fetched_->get(photo.digest)) return std::move(*kept);
  }
  Result<std::string> file = fs_.read(photos_.file_of(photo.path), limits::kPhotoFile);
  if (!file.ok()) return file;
  if (sha256(*file) == photo.digest) {
    if (fetched_ && !photos_.is_upload(photo.path)) fetched_->keep(photo.digest, *file);
    return file;
  }
  if (config_.suspect) config_.suspect(photo.path);
  return Status(Code::kCorrupt, "its bytes are not those of photo " + to_hex(photo.digest) +
                                    " any more: the file was written, or the disk has changed it");
}

}  // namespace ndtrain::ndp
