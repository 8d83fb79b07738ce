#include "ndp/photos/catalogue_scan.h"

#include <algorithm>
#include <utility>

#include "ndp/photos/read_ahead.h"
#include "ndp/photos/upload_path.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kRowsAtOnce = 4096;

bool same_stat(const PhotoRef& a, const PhotoRef& b) {
  return a.size == b.size && a.mtime_ns == b.mtime_ns && a.inode == b.inode;
}

}  // namespace

Result<ScanReport> CatalogueScan::run() {
  std::string cursor;
  do {
    const Result<PhotoPage> page = source_.list(cursor, options_.page);
    if (!page.ok()) return page.status();
    take(*page);
    cursor = page->next;
    if (options_.on_page) options_.on_page(report_.seen, report_.hashed);
  } while (!cursor.empty());
  finish();
  return std::move(report_);
}

void CatalogueScan::take(const PhotoPage& page) {
  for (const PhotoProblem& p : page.problems) hidden_.insert(p.path);
  report_.problems.insert(report_.problems.end(), page.problems.begin(), page.problems.end());
  std::vector<Candidate> changed = look_up(page);
  if (options_.far) {
    read_far(changed);
  } else {
    read(changed);
    store(changed);
  }
  report_.seen += static_cast<int64_t>(page.photos.size());
}

// All but the unchanged.
std::vector<CatalogueScan::Candidate> CatalogueScan::look_up(const PhotoPage& page) {
  std::vector<Candidate> changed;
  sql::Transaction t(rows_.database());  // one for all reads: opening one for each costs more
  for (const PhotoRef& ref : page.photos) {
    Candidate c = look_up(ref);
    if (c.known) mark_seen(c.known->id);
    const bool unchanged = c.known && !c.read && c.known->missed == 0;
    if (unchanged && c.known->fresh && !places_.empty()) fresh_.push_back(*c.known);
    if (!unchanged) changed.push_back(std::move(c));
  }
  t.commit();
  return changed;
}

CatalogueScan::Candidate CatalogueScan::look_up(const PhotoRef& ref) {
  Candidate c;
  c.known = rows_.by_path(ref.path);
  if (c.known && c.known->entry.digest && same_stat(c.known->entry.ref, ref)) {
    c.entry = c.known->entry;
  } else if (std::optional<CatalogueRow> same = c.known ? std::nullopt : rows_.same_file(ref)) {
    c.entry = std::move(same->entry);
    c.entry.ref = ref;
  } else {
    c.entry.ref = ref;
    c.read = true;
  }
  return c;
}

void CatalogueScan::read(std::vector<Candidate>& candidates) {
  std::vector<Candidate*> files;
  for (Candidate& c : candidates) {
    if (c.read) files.push_back(&c);
  }
  pool_.parallel_for(static_cast<int64_t>(files.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) (void)read(*files[i]);
  });
  report_.hashed += static_cast<int64_t>(files.size());
}

void CatalogueScan::read_far(std::vector<Candidate>& all) {
  std::vector<size_t> files;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].read) files.push_back(i);
  }
  PhotoReadAhead ahead({.in_order = files,
                        .open = [&](size_t i) { return read(all[i]); },
                        .bytes = [&](size_t i) { return all[i].entry.ref.size; }});
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    std::vector<std::pair<size_t, std::string>> part;  // places and bytes
    int64_t bytes = 0;
    Status away;
    for (; end < all.size() && part.size() < part_photos_; ++end) {
      if (bytes >= ScanOptions::kPartBytes) break;
      if (!all[end].read) continue;
      Result<std::string> file = ahead.take(end);
      if (file.status().code() == Code::kUnavailable) away = file.status();
      if (!away.ok()) break;
      ++report_.hashed;
      if (!file.ok() || !options_.on_read) continue;
      bytes += static_cast<int64_t>(file->size());
      part.emplace_back(end, std::move(*file));
    }
    part_photos_ = std::min(2 * part_photos_, ScanOptions::kPartPhotos);
    store(std::span(all).subspan(begin, end - begin));
    std::vector<PhotoRead> whole;
    for (auto& [place, file] : part) {
      const CatalogueEntry& e = all[place].entry;
      if (e.state == PhotoState::kOk) whole.push_back({e, std::move(file)});
    }
    if (!whole.empty() && !options_.on_read(std::move(whole))) {
      throw sql::Failure{{Code::kCancelled, "the scan was ended"}};
    }
    if (!away.ok()) throw sql::Failure{away};
  }
}

void CatalogueScan::store(std::span<Candidate> candidates) {
  sql::Transaction t(rows_.database());
  for (Candidate& c : candidates) store(c);
  t.commit();
}

Result<std::string> CatalogueScan::read(Candidate& c) const {
  Result<std::string> file = source_.open(c.entry.ref.path);
  if (!file.ok()) {
    c.gone = file.status().code() == Code::kNotFound;
    c.entry.state = PhotoState::kQuarantined;
    c.entry.reason = file.status().message();
    return file;
  }
  c.entry.digest = sha256(*file);
  const std::optional<Digest> named = photo_of_upload_path(c.entry.ref.path);
  if (named && *named != *c.entry.digest) {
    c.entry.state = PhotoState::kQuarantined;
    c.entry.reason = damaged_by_disk(*named);
    return file;
  }
  Verdict v = judge_photo(c.entry.ref.path, std::as_bytes(std::span(*file)));
  c.entry.state = v.state;
  c.entry.reason = std::move(v.reason);
  return file;
}

void CatalogueScan::store(Candidate& c) {
  const std::string& path = c.entry.ref.path;
  if (c.gone) {
    if (c.known) seen_[static_cast<size_t>(c.known->id)] = false;
    return;
  }
  if (!c.entry.digest) report_.problems.push_back({path, c.entry.reason});
  if (c.entry.digest && c.entry.state == PhotoState::kOk) {
    if (std::optional<std::string> reason = rows_.bad(*c.entry.digest)) {
      c.entry.state = PhotoState::kQuarantined;
      c.entry.reason = std::move(*reason);
    }
  }
  store_damage(c.entry);
  if (!c.known) {
    const int64_t id = rows_.insert(c.entry);
    mark_seen(id);
    if (!places_.empty()) fresh_.push_back({.id = id, .entry = c.entry, .fresh = true});
    return;
  }
  const CatalogueRow& known = *c.known;
  const bool reborn = known.missed >= 2, same = c.entry.digest == known.entry.digest;
  const bool fresh = known.fresh || reborn;
  const bool new_bytes = !fresh && !same && !is_known({.id = known.id, .entry = c.entry});
  rows_.update(known.id, c.entry, fresh);
  if (reborn && same && !known.fresh) reborn_.insert(known.id);
  if (fresh && !places_.empty()) {
    fresh_.push_back({.id = known.id, .entry = c.entry, .fresh = true});
  }
  if (fresh || (known.missed == 0 && same)) return;
  tell({.kind = known.missed == 1 ? PhotoChange::Kind::kReturned : PhotoChange::Kind::kChanged,
        .path = path,
        .digest = c.entry.digest,
        .state = c.entry.state,
        .new_bytes = new_bytes});
}

// Uploads never change, so one is known by its name; another file at the path of a photo that was
// damaged is as whole as any.
void CatalogueScan::store_damage(const CatalogueEntry& e) {
  if (e.state == PhotoState::kOk) return rows_.remove_damaged(e.ref.path);
  const std::optional<Digest> named = photo_of_upload_path(e.ref.path);
  if (named && named != e.digest) rows_.add_damaged(e.ref.path, *named);
}

// In one transaction: a crash before its end leaves the fresh rows fresh.
void CatalogueScan::finish() {
  sql::Transaction t(rows_.database());
  places_.empty() ? end_of_all() : end_of_places();
  if (options_.on_end) {
    if (Status s = options_.on_end(); !s.ok()) throw sql::Failure{s};
  }
  t.commit();
}

void CatalogueScan::end_of_all() {
  for (int64_t id = 0;;) {
    const std::vector<CatalogueRow> rows = rows_.after_id(id, kRowsAtOnce, true);
    if (rows.empty()) break;
    id = rows.back().id;
    for (const CatalogueRow& row : rows) {
      if (!is_gone(row)) settle(row);
    }
  }
  for (int64_t id = 0;;) {
    const std::vector<CatalogueRow> rows = rows_.after_id(id, kRowsAtOnce, false);
    if (rows.empty()) break;
    id = rows.back().id;
    for (const CatalogueRow& row : rows) settle_absent(row);
  }
  rows_.clear_fresh();
  rows_.set_scanned();
}

// What an unfinished scan of all added elsewhere is for the next one to tell.
void CatalogueScan::end_of_places() {
  for (const CatalogueRow& row : fresh_) settle(row);
  for (const CatalogueRow& row : fresh_) rows_.clear_fresh(row.id);
  for (const std::string& place : places_) {
    for (const CatalogueRow& row : rows_.at_or_below(place)) settle_absent(row);
  }
}

void CatalogueScan::settle(const CatalogueRow& row) {
  if (settle_fresh(row)) return;
  tell({.kind = PhotoChange::Kind::kAdded,
        .path = row.entry.ref.path,
        .digest = row.entry.digest,
        .state = row.entry.state,
        .new_bytes = !reborn_.contains(row.id) && !is_known(row)});
}

// Whether a scan that ended has seen these bytes elsewhere.
bool CatalogueScan::is_known(const CatalogueRow& row) const {
  if (!row.entry.digest) return false;
  return std::ranges::any_of(rows_.by_digest(*row.entry.digest), [&](const CatalogueRow& other) {
    return other.id != row.id && !other.fresh;
  });
}

// Whether `row` is where a photo that is gone went; of several the one of the same name.
bool CatalogueScan::settle_fresh(const CatalogueRow& row) {
  if (!row.entry.digest) return false;
  const CatalogueRow* from = nullptr;
  const std::vector<CatalogueRow> same = rows_.by_digest(*row.entry.digest);
  const std::string name = name_of_path(row.entry.ref.path);
  for (const CatalogueRow& other : same) {
    if (other.id == row.id || other.fresh || !is_gone(other)) continue;
    if (from == nullptr) from = &other;
    if (name_of_path(other.entry.ref.path) == name) {
      from = &other;
      break;
    }
  }
  if (from == nullptr) return false;
  tell({.kind = PhotoChange::Kind::kMoved,
        .path = row.entry.ref.path,
        .from = from->entry.ref.path,
        .digest = row.entry.digest,
        .state = row.entry.state});
  rows_.remove(from->id);
  return true;
}

void CatalogueScan::settle_absent(const CatalogueRow& row) {
  if (!is_gone(row)) return;
  // Seen by an unfinished scan and by no finished one: nobody was told of it.
  if (row.fresh) return rows_.remove(row.id);
  rows_.set_missed(row.id, row.missed + 1);
  tell({.kind = row.missed == 0 ? PhotoChange::Kind::kMissing : PhotoChange::Kind::kDeleted,
        .path = row.entry.ref.path});
}

// Known at the last scan or the one before, not seen in this one, though we could look.
bool CatalogueScan::is_gone(const CatalogueRow& row) const {
  const auto id = static_cast<size_t>(row.id);
  if ((id < seen_.size() && seen_[id]) || row.missed >= 2) return false;
  bool looked = places_.empty() || row.missed == 1;
  for (std::string place = row.entry.ref.path; !place.empty(); place = parent_of(place)) {
    if (hidden_.contains(place)) return false;
    looked = looked || places_.contains(place);
  }
  return looked;
}

void CatalogueScan::mark_seen(int64_t id) {
  const auto i = static_cast<size_t>(id);
  if (i >= seen_.size()) seen_.resize(std::max(i + 1, 2 * seen_.size()));
  seen_[i] = true;
}

void CatalogueScan::tell(const PhotoChange& change) {
  int64_t* const counts[] = {&report_.added,   &report_.moved,   &report_.changed,
                             &report_.missing, &report_.deleted, &report_.returned};
  ++*counts[static_cast<size_t>(change.kind)];
  if (options_.on_change) options_.on_change(change);
}

}  // namespace ndtrain::ndp
