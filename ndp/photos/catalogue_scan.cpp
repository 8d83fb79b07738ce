#include "ndp/photos/catalogue_scan.h"

#include <algorithm>

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
  read(changed);
  sql::Transaction t(rows_.database());
  for (Candidate& c : changed) store(c);
  t.commit();
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
    for (int64_t i = begin; i < end; ++i) read(*files[i]);
  });
  report_.hashed += static_cast<int64_t>(files.size());
}

void CatalogueScan::read(Candidate& c) const {
  const Result<std::string> file = source_.open(c.entry.ref.path);
  if (!file.ok()) {
    c.gone = file.status().code() == Code::kNotFound;
    c.entry.state = PhotoState::kQuarantined;
    c.entry.reason = file.status().message();
    return;
  }
  c.entry.digest = sha256(*file);
  Verdict v = judge_photo(c.entry.ref.path, std::as_bytes(std::span(*file)));
  c.entry.state = v.state;
  c.entry.reason = std::move(v.reason);
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
  if (!c.known) {
    mark_seen(rows_.insert(c.entry));
    return;
  }
  const CatalogueRow& known = *c.known;
  const bool reborn = known.missed >= 2;
  rows_.update(known.id, c.entry, known.fresh || reborn);
  if (known.fresh || reborn) return;
  if (known.missed == 1) {
    tell(PhotoChange::Kind::kReturned, path);
  } else if (c.entry.digest != known.entry.digest) {
    tell(PhotoChange::Kind::kChanged, path);
  }
}

// In one transaction: a crash before its end leaves the fresh rows fresh.
void CatalogueScan::finish() {
  sql::Transaction t(rows_.database());
  for (int64_t id = 0;;) {
    const std::vector<CatalogueRow> rows = rows_.after_id(id, kRowsAtOnce, true);
    if (rows.empty()) break;
    id = rows.back().id;
    for (const CatalogueRow& row : rows) {
      if (!is_gone(row) && !settle_fresh(row)) tell(PhotoChange::Kind::kAdded, row.entry.ref.path);
    }
  }
  for (int64_t id = 0;;) {
    const std::vector<CatalogueRow> rows = rows_.after_id(id, kRowsAtOnce, false);
    if (rows.empty()) break;
    id = rows.back().id;
    for (const CatalogueRow& row : rows) settle_absent(row);
  }
  rows_.clear_fresh();
  t.commit();
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
  tell(PhotoChange::Kind::kMoved, row.entry.ref.path, from->entry.ref.path);
  rows_.remove(from->id);
  return true;
}

void CatalogueScan::settle_absent(const CatalogueRow& row) {
  if (!is_gone(row)) return;
  // Seen by an unfinished scan and by no finished one: nobody was told of it.
  if (row.fresh) return rows_.remove(row.id);
  rows_.set_missed(row.id, row.missed + 1);
  tell(row.missed == 0 ? PhotoChange::Kind::kMissing : PhotoChange::Kind::kDeleted,
       row.entry.ref.path);
}

// Known at the last scan or the one before, not seen in this one, though we could look.
bool CatalogueScan::is_gone(const CatalogueRow& row) const {
  const auto id = static_cast<size_t>(row.id);
  if ((id < seen_.size() && seen_[id]) || row.missed >= 2) return false;
  for (std::string place = row.entry.ref.path; !place.empty(); place = parent_of(place)) {
    if (hidden_.contains(place)) return false;
  }
  return true;
}

void CatalogueScan::mark_seen(int64_t id) {
  const auto i = static_cast<size_t>(id);
  if (i >= seen_.size()) seen_.resize(std::max(i + 1, 2 * seen_.size()));
  seen_[i] = true;
}

void CatalogueScan::tell(PhotoChange::Kind kind, const std::string& path, const std::string& from) {
  int64_t* const counts[] = {&report_.added,   &report_.moved,   &report_.changed,
                             &report_.missing, &report_.deleted, &report_.returned};
  ++*counts[static_cast<size_t>(kind)];
  if (options_.on_change) options_.on_change({kind, path, from});
}

}  // namespace ndtrain::ndp
