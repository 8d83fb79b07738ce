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
    if (!is_temporary(name) && name.ends_with(kExtension)) find_file(join(directory, name));
  }
}

void PhotoHolders::find_file(const std::string& path) {
  const Result<DigestSetFile> file = DigestSetFile::open(ports_.fs, path);
  const Code code = file.status().code();
  if (!file.ok())
    log::warn("what a store holds is not known: {}: {}", path, file.status().message());
  if (code == Code::kCorrupt) return remove_file(path);
  if (!file.ok()) return;
  const DigestSetFacts& facts = file->facts();
  if (path_of(facts.name) != path || !ports_.known(facts.name)) return remove_file(path);
  stores_[facts.name].facts = facts;
}

void PhotoHolders::set(const std::string& store, PhotoClaims::Photos photos) {
  stores_[store] = {.photos = std::move(photos)};
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
    set(store, std::make_shared<const std::vector<Digest>>(std::move(held)));
  }
}

void PhotoHolders::forget(const std::string& store) {
  stores_.erase(store);
  unwritten_.erase(store);
  remove_file(path_of(store));
}

std::vector<PhotoHolders::Rewrite> PhotoHolders::begin_forgetting(const std::set<Digest>& photos) {
  std::vector<Rewrite> files;
  for (auto& [store, held] : stores_) {
    if (!std::ranges::any_of(photos, [&](const Digest& p) { return is_held(store, held, p); })) {
      continue;
    }
    if (held.photos) {  // there is no file
      held.photos = std::make_shared<const std::vector<Digest>>(without(*held.photos, photos));
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
  if (read.code() == Code::kCorrupt || read.code() == Code::kNotFound) {
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
  return held != stores_.end() && !held->second.lost;
}

uint64_t PhotoHolders::number_of(const std::string& store) const {
  const auto held = stores_.find(store);
  if (held == stores_.end() || held->second.lost) return 0;
  return held->second.photos ? held->second.photos->size() : held->second.facts.digests;
}

bool PhotoHolders::holds(const std::string& store, const Digest& photo) const {
  const auto held = stores_.find(store);
  return held != stores_.end() && is_held(store, held->second, photo);
}

bool PhotoHolders::held_elsewhere(const std::string& store, const Digest& photo) const {
  return std::ranges::any_of(stores_, [&](auto& other) {
    return other.first != store && is_held(other.first, other.second, photo);
  });
}

std::vector<Digest> PhotoHolders::photos_of(const std::string& store) const {
  const auto held = stores_.find(store);
  if (held == stores_.end()) return {};
  if (held->second.photos) return *held->second.photos;
  std::vector<Digest> photos;
  const Status s = read_file(store, held->second, [&](DigestSetFile& file) {
    return file.each([&](std::span<const Digest> some) {
      photos.insert(photos.end(), some.begin(), some.end());
    });
  });
  return s.ok() ? photos : std::vector<Digest>();
}

bool PhotoHolders::is_held(const std::string& store, Held& held, const Digest& photo) const {
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
  if (!held.rewriting && (s.code() == Code::kCorrupt || s.code() == Code::kNotFound)) {
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
