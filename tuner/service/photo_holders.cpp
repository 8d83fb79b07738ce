#include "tuner/service/photo_holders.h"

#include <algorithm>
#include <utility>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "tuner/service/service_lanes.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr std::string_view kExtension = ".set";

// It is of no use any more, unlike one that a disk or a full table of files keeps from us.
bool is_lost(const Status& s) { return s.code() == Code::kCorrupt || s.code() == Code::kNotFound; }

std::vector<Digest> without(std::span<const Digest> all, const std::set<Digest>& some) {
  std::vector<Digest> rest;
  std::ranges::copy_if(all, std::back_inserter(rest),
                       [&](const Digest& d) { return !some.contains(d); });
  return rest;
}

}  // namespace

PhotoHolders::PhotoHolders(Ports ports) : ports_(std::move(ports)) { find_files(); }

std::string PhotoHolders::path_of(const std::string& store) const {
  return join(join(ports_.directory, "holders"), to_hex(sha256(store)) + std::string(kExtension));
}

void PhotoHolders::find_files() {
  const std::string directory = join(ports_.directory, "holders");
  const Result<std::vector<std::string>> names = ports_.fs.list(directory);
  if (names.status().code() == Code::kNotFound) return;
  names.status().or_throw();
  for (const std::string& name : *names) {
    if (is_temporary(name) || !name.ends_with(kExtension)) continue;
    const std::string path = join(directory, name);
    if (!find_file(path).ok()) unread_.insert(path);
  }
}

Status PhotoHolders::find_file(const std::string& path) const {
  const Result<DigestSetFile> file = DigestSetFile::open(ports_.fs, path);
  if (!file.ok()) {
    log::warn("what a store holds is not known: {}: {}", path, file.status().message());
    if (!is_lost(file.status())) return file.status();
    remove_file(path);
    return {};
  }
  const DigestSetFacts& facts = file->facts();
  if (path_of(facts.name) == path && ports_.known(facts.name)) {
    stores_[facts.name].facts = facts;
  } else {
    remove_file(path);
  }
  return {};
}

Status PhotoHolders::try_again(const std::string& path) const {
  if (!unread_.contains(path)) return {};
  Status s = find_file(path);
  if (s.ok()) unread_.erase(path);
  return s;
}

Status PhotoHolders::try_all_again() const {
  Status all;
  for (const std::string& path : std::set<std::string>(unread_)) {
    if (Status s = try_again(path); !s.ok()) all = s;
  }
  return all;
}

void PhotoHolders::set(const std::string& store, PhotoClaims::Photos photos) {
  stores_[store] = {.photos = std::move(photos)};
  unread_.erase(path_of(store));
  if (!ports_.known(store)) return;
  unwritten_.insert(store);
  write_next();
}

void PhotoHolders::recall(const SavedManifest& kept) {
  std::map<std::string, std::vector<Digest>> photos;
  for (uint64_t n = 0; n < kept.manifest.size(); ++n) {
    const Manifest::Entry& e = kept.manifest.entry(n);  // entries rise
    for (const uint32_t holder : e.holders) {
      const std::string& store = kept.stores.at(holder);
      if (!heard_of(store)) photos[store].push_back(e.digest);
    }
  }
  for (auto& [store, held] : photos) {
    set(store, std::make_shared<const std::pmr::vector<Digest>>(held.begin(), held.end()));
  }
}

void PhotoHolders::forget(const std::string& store) {
  stores_.erase(store);
  unwritten_.erase(store);
  unread_.erase(path_of(store));
  remove_file(path_of(store));
}

Result<std::vector<PhotoHolders::Rewrite>> PhotoHolders::begin_forgetting(
    const std::set<Digest>& photos) {
  if (Status s = try_all_again(); !s.ok()) return s;
  std::set<std::string> holding;
  for (auto& [store, held] : stores_) {
    for (auto photo = photos.begin(); photo != photos.end() && !holding.contains(store); ++photo) {
      const Result<bool> has = is_held(store, held, *photo);
      if (!has.ok()) return has.status();
      if (*has) holding.insert(store);
    }
  }
  std::vector<Rewrite> files;
  for (const std::string& store : holding) {
    Held& held = stores_.at(store);
    if (held.photos) {  // there is no file
      const std::vector<Digest> rest = without(*held.photos, photos);
      held.photos = std::make_shared<const std::pmr::vector<Digest>>(rest.begin(), rest.end());
    } else {
      held.rewriting = true;
      files.push_back({.store = store, .path = path_of(store), .before = held.facts});
    }
  }
  return files;
}

Status PhotoHolders::forget_in(Fs& fs, const std::set<Digest>& photos, Rewrite& file) {
  std::vector<Digest> rest;
  Result<DigestSetFile> old = DigestSetFile::open(fs, file.path, file.before);
  Status read = old.ok() ? old->each([&](std::span<const Digest> some) {
    const std::vector<Digest> kept = without(some, photos);
    rest.insert(rest.end(), kept.begin(), kept.end());
  })
                         : old.status();
  if (is_lost(read)) {
    log::warn("what store '{}' holds is not known: {}: {}", file.store, file.path, read.message());
    file.done = file.lost = true;
    const Status s = fs.remove(file.path);
    return s.code() == Code::kNotFound ? Status() : s;
  }
  if (!read.ok()) return read;
  Result<DigestSetFacts> facts = write_digest_set(fs, file.path, file.store, rest, file.filter);
  file.done = facts.ok();
  if (facts.ok()) file.after = std::move(*facts);
  return facts.status();
}

// In the meantime a store may have said another thing, or be forgotten.
void PhotoHolders::end_forgetting(std::vector<Rewrite> files) {
  for (Rewrite& file : files) {
    const auto held = stores_.find(file.store);
    if (held == stores_.end()) {
      remove_file(file.path);
    } else if (held->second.photos) {
      continue;
    } else if (file.lost) {
      held->second = {.lost = true};
    } else if (file.done) {
      held->second = {.facts = std::move(file.after), .filter = std::move(file.filter)};
    } else {
      held->second.rewriting = false;
    }
  }
}

void PhotoHolders::write_next() {
  if (writing_ || unwritten_.empty()) return;
  writing_ = true;
  const std::string store = unwritten_.extract(unwritten_.begin()).value();
  ports_.lanes.start(
      kUploadLane,
      [this, store, path = path_of(store), photos = stores_.at(store).photos]() -> Continuation {
        DigestFilter filter;
        Status made = ports_.fs.make_directories(parent_of(path));
        const Result<DigestSetFacts> facts =
            made.ok() ? write_digest_set(ports_.fs, path, store, *photos, filter)
                      : Result<DigestSetFacts>(std::move(made));
        return [this, store, photos, facts, filter = std::move(filter)]() mutable {
          writing_ = false;
          written(store, photos, facts, std::move(filter));
          write_next();
        };
      });
}

// In the meantime it may have said another thing, or be forgotten.
void PhotoHolders::written(const std::string& store, const PhotoClaims::Photos& photos,
                           const Result<DigestSetFacts>& facts, DigestFilter filter) {
  const auto held = stores_.find(store);
  if (held == stores_.end()) return remove_file(path_of(store));
  if (held->second.photos != photos) return;
  if (!facts.ok()) {
    remove_file(path_of(store));  // it is what was said before
    return log::warn("what store '{}' holds stays in memory: {}", store, facts.status().message());
  }
  held->second = {.facts = *facts, .filter = std::move(filter)};
  unwritten_.erase(store);  // the same was said again
}

bool PhotoHolders::heard_of(const std::string& store) const {
  const auto held = stores_.find(store);
  return held != stores_.end() ? !held->second.lost : unread_.contains(path_of(store));
}

uint64_t PhotoHolders::number_of(const std::string& store) const {
  const auto held = stores_.find(store);
  if (held == stores_.end() || held->second.lost) return 0;
  return held->second.photos ? held->second.photos->size() : held->second.facts.digests;
}

Result<bool> PhotoHolders::holds(const std::string& store, const Digest& photo) const {
  if (Status s = try_again(path_of(store)); !s.ok()) return s;
  const auto held = stores_.find(store);
  return held == stores_.end() ? false : is_held(store, held->second, photo);
}

Result<bool> PhotoHolders::held_elsewhere(const std::string& store, const Digest& photo) const {
  Status trouble;  // of a file that may say another thing
  for (const std::string& path : std::set<std::string>(unread_)) {
    if (path == path_of(store)) continue;
    if (Status s = try_again(path); !s.ok()) trouble = s;
  }
  for (auto& [name, held] : stores_) {
    if (name == store) continue;
    const Result<bool> has = is_held(name, held, photo);
    if (has.ok() && *has) return true;
    if (!has.ok()) trouble = has.status();
  }
  if (!trouble.ok()) return trouble;
  return false;
}

Result<std::vector<Digest>> PhotoHolders::photos_of(const std::string& store) const {
  if (Status s = try_again(path_of(store)); !s.ok()) return s;
  const auto held = stores_.find(store);
  if (held == stores_.end()) return std::vector<Digest>();
  if (const PhotoClaims::Photos& photos = held->second.photos) {
    return std::vector<Digest>(photos->begin(), photos->end());
  }
  std::vector<Digest> photos;
  const Status s = read_file(store, held->second, [&](DigestSetFile& file) {
    return file.each([&](std::span<const Digest> some) {
      photos.insert(photos.end(), some.begin(), some.end());
    });
  });
  if (s.ok()) return photos;
  if (is_lost(s)) return std::vector<Digest>();
  return s;
}

Result<bool> PhotoHolders::is_held(const std::string& store, Held& held,
                                   const Digest& photo) const {
  if (held.photos) return std::ranges::binary_search(*held.photos, photo);
  if (held.filter && !held.filter->may_have(photo)) return false;
  bool has = false;
  const Status s = read_file(store, held, [&](DigestSetFile& file) {
    if (!held.filter) {
      Result<DigestFilter> filter = file.filter();
      if (!filter.ok()) return filter.status();
      held.filter = std::move(*filter);
      if (!held.filter->may_have(photo)) return Status();
    }
    const Result<bool> found = file.has(photo);
    has = found.ok() && *found;
    return found.status();
  });
  if (!s.ok() && !is_lost(s)) return s;
  return s.ok() && has;
}

Status PhotoHolders::read_file(const std::string& store, Held& held,
                               const std::function<Status(DigestSetFile&)>& read) const {
  if (held.lost) return {Code::kNotFound, "it was damaged"};
  const std::string path = path_of(store);
  Result<DigestSetFile> file = held.rewriting ? DigestSetFile::open(ports_.fs, path)
                                              : DigestSetFile::open(ports_.fs, path, held.facts);
  Status s = file.ok() ? read(*file) : file.status();
  if (s.ok()) return s;
  log::warn("what store '{}' holds is not known: {}: {}", store, path, s.message());
  if (!held.rewriting && is_lost(s)) {
    held = {.lost = true};
    remove_file(path);
  }
  return s;
}

void PhotoHolders::remove_file(const std::string& path) const {
  const Status s = ports_.fs.remove(path);
  if (!s.ok() && s.code() != Code::kNotFound) log::warn("{}: {}", path, s.message());
}

}  // namespace ndtrain::tuner
