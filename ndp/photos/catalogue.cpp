#include "ndp/photos/catalogue.h"

#include "ndp/photos/catalogue_rows.h"
#include "ndp/photos/catalogue_scan.h"

namespace ndtrain::ndp {
namespace {

// Runs `f` and turns Failure into the Status it holds.
template <typename F>
auto guarded(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const sql::Failure& failure) {
    return failure.status;
  }
}

CatalogueEntry entry_of(CatalogueRow row) {
  const PhotoState state = row.state();
  row.entry.state = state;
  return std::move(row.entry);
}

}  // namespace

std::string damaged_by_disk(const Digest& photo) {
  return "the disk has changed it: its bytes are not those of photo " + to_hex(photo) +
         " any more, and nobody has written the file; put back a backup of it";
}

struct Catalogue::State {
  explicit State(const std::string& in) : directory(in), rows(join(in, std::string(kFile))) {}
  const std::string directory;
  CatalogueRows rows;
};

Catalogue::Catalogue(std::unique_ptr<State> state) : state_(std::move(state)) {}
Catalogue::~Catalogue() = default;
const std::string& Catalogue::directory() const { return state_->directory; }

Result<std::unique_ptr<Catalogue>> Catalogue::open(Fs& fs, const std::string& state_directory) {
  if (Status s = fs.make_directories(state_directory); !s.ok()) return s;
  return guarded([&]() -> Result<std::unique_ptr<Catalogue>> {
    auto state = std::make_unique<State>(state_directory);
    return std::unique_ptr<Catalogue>(new Catalogue(std::move(state)));
  });
}

Result<ScanReport> Catalogue::scan(PhotoSource& source, ThreadPool& pool,
                                   const ScanOptions& options) {
  if (options.page == 0) throw Error("Catalogue::scan: a page of 0 photos");
  return guarded([&] { return CatalogueScan(state_->rows, source, pool, options).run(); });
}

Result<std::optional<CatalogueEntry>> Catalogue::find(const std::string& path) {
  return guarded([&]() -> Result<std::optional<CatalogueEntry>> {
    std::optional<CatalogueRow> row = state_->rows.by_path(path);
    if (!row) return std::optional<CatalogueEntry>();
    return std::optional(entry_of(std::move(*row)));
  });
}

Result<std::vector<CatalogueEntry>> Catalogue::with_digest(const Digest& digest) {
  return guarded([&]() -> Result<std::vector<CatalogueEntry>> {
    std::vector<CatalogueEntry> entries;
    for (CatalogueRow& row : state_->rows.by_digest(digest)) {
      if (row.missed == 0) entries.push_back(entry_of(std::move(row)));
    }
    return entries;
  });
}

Result<std::vector<CatalogueEntry>> Catalogue::entries_after(const std::string& path,
                                                             size_t limit) {
  return guarded([&]() -> Result<std::vector<CatalogueEntry>> {
    std::vector<CatalogueEntry> entries;
    for (CatalogueRow& row : state_->rows.after_path(path, limit)) {
      entries.push_back(entry_of(std::move(row)));
    }
    return entries;
  });
}

Result<CatalogueCounts> Catalogue::counts() {
  return guarded([&]() -> Result<CatalogueCounts> { return state_->rows.counts(); });
}

Result<bool> Catalogue::scanned() {
  return guarded([&]() -> Result<bool> { return state_->rows.scanned(); });
}

Status Catalogue::quarantine(const Digest& digest, const std::string& reason) {
  return guarded([&]() -> Status {
    sql::Transaction t(state_->rows.database());
    state_->rows.add_bad(digest, reason);
    t.commit();
    return {};
  });
}

Status Catalogue::set_damaged(const std::string& path, const Digest& now) {
  return guarded([&]() -> Status {
    sql::Transaction t(state_->rows.database());
    std::optional<CatalogueRow> row = state_->rows.by_path(path);
    if (!row) return {Code::kNotFound, path + ": not in the catalogue"};
    CatalogueEntry& e = row->entry;
    if (!e.digest || e.state != PhotoState::kOk) return {};  // is so, or was no photo
    const Digest photo = *e.digest;
    e.digest = now;
    e.state = PhotoState::kQuarantined;
    e.reason = damaged_by_disk(photo);
    state_->rows.update(row->id, e, row->fresh);
    state_->rows.add_damaged(path, photo);
    state_->rows.add_bad(now, e.reason);
    t.commit();
    return {};
  });
}

Result<std::vector<DamagedPhoto>> Catalogue::damaged() {
  return guarded([&]() -> Result<std::vector<DamagedPhoto>> { return state_->rows.damaged(); });
}

Status Catalogue::forget_damage(const std::string& path) {
  return guarded([&]() -> Status {
    sql::Transaction t(state_->rows.database());
    if (const auto row = state_->rows.by_path(path)) state_->rows.remove(row->id);
    state_->rows.remove_damaged(path);
    t.commit();
    return {};
  });
}

Status Catalogue::forget(const std::string& path) {
  return guarded([&]() -> Status {
    const std::optional<CatalogueRow> row = state_->rows.by_path(path);
    if (!row) return {Code::kNotFound, path + ": not in the catalogue"};
    state_->rows.set_missed(row->id, 2);
    return {};
  });
}

Status Catalogue::remove(const Digest& digest) {
  return guarded([&]() -> Status {
    sql::Transaction t(state_->rows.database());
    for (const CatalogueRow& row : state_->rows.by_digest(digest)) state_->rows.remove(row.id);
    state_->rows.remove_bad(digest);
    for (const DamagedPhoto& d : state_->rows.damaged()) {
      if (d.photo != digest) continue;
      if (const auto row = state_->rows.by_path(d.path)) state_->rows.remove(row->id);
      state_->rows.remove_damaged(d.path);
    }
    t.commit();
    return {};
  });
}

Status Catalogue::scrub() {
  return guarded([&]() -> Status {
    sql::Database& db = state_->rows.database();
    db.execute("VACUUM");
    // 0: the log is all in the file, and empty.
    if (db.integer("PRAGMA wal_checkpoint(TRUNCATE)") == 0) return {};
    return {Code::kIo, "somebody else reads the list of photos at the moment"};
  });
}

}  // namespace ndtrain::ndp
