#include "ndp/photos/catalogue_rows.h"

#include <algorithm>
#include <string_view>

namespace ndtrain::ndp {
namespace {

constexpr int64_t kVersion = 1;
constexpr int64_t kScanned = 0x4e445453;  // application_id once a scan of all came to its end

// Paths are blobs: file names need not be UTF-8.
constexpr const char* kSchema = R"(
CREATE TABLE photo(
  id INTEGER PRIMARY KEY,
  path BLOB NOT NULL UNIQUE,
  size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  digest BLOB,
  state INTEGER NOT NULL,
  reason BLOB NOT NULL,
  missed INTEGER NOT NULL DEFAULT 0,
  fresh INTEGER NOT NULL DEFAULT 0);
CREATE INDEX photo_digest ON photo(digest);
CREATE INDEX photo_inode ON photo(inode);
CREATE TABLE bad(digest BLOB PRIMARY KEY, reason BLOB NOT NULL) WITHOUT ROWID;
PRAGMA user_version = 1;
)";

// Beside what version 1 has, which leaves it alone.
constexpr const char* kDamaged =
    "CREATE TABLE IF NOT EXISTS damaged(path BLOB PRIMARY KEY, digest BLOB NOT NULL) WITHOUT ROWID";

#define NDT_COLUMNS "id, path, size, mtime_ns, inode, digest, state, reason, missed, fresh"

// Whether the tables are there. Throws for those of another version.
bool has_schema(sql::Database& db) {
  const int64_t version = db.integer("PRAGMA user_version");
  if (version == 0 || version == kVersion) return version != 0;
  throw sql::Failure{Status(Code::kCorrupt, "photo catalogue: version " + std::to_string(version) +
                                                ", not " + std::to_string(kVersion) +
                                                "; remove it to scan anew")};
}

bool prepare_schema(sql::Database& db) {
  // NORMAL: what a power cut takes, the next scan finds again.
  db.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL");
  const char* const kHasDamaged = "SELECT count(*) FROM sqlite_schema WHERE name = 'damaged'";
  if (has_schema(db) && db.integer(kHasDamaged) == 1) return true;
  sql::Transaction t(db);
  if (!has_schema(db)) db.execute(kSchema);  // unless another process was first
  db.execute(kDamaged);
  t.commit();
  return true;
}

std::span<const uint8_t> blob(std::string_view s) {
  return {reinterpret_cast<const uint8_t*>(s.data()), s.size()};
}

std::span<const uint8_t> blob(const Digest& d) { return d; }

std::optional<std::span<const uint8_t>> blob(const std::optional<Digest>& d) {
  if (!d) return std::nullopt;
  return blob(*d);
}

CatalogueRow row_of(const sql::Statement& s) {
  CatalogueRow r;
  r.id = s.integer(0);
  r.entry.ref = {.path = s.bytes(1),
                 .size = s.integer(2),
                 .mtime_ns = s.integer(3),
                 .inode = static_cast<uint64_t>(s.integer(4))};
  if (const std::string d = s.bytes(5); d.size() == sizeof(Digest)) {
    std::copy(d.begin(), d.end(), r.entry.digest.emplace().begin());
  }
  r.entry.state = static_cast<PhotoState>(s.integer(6));
  r.entry.reason = s.bytes(7);
  r.missed = s.integer(8);
  r.fresh = s.integer(9) != 0;
  return r;
}

}  // namespace

PhotoState CatalogueRow::state() const {
  if (missed >= 2) return PhotoState::kDeleted;
  return missed == 1 ? PhotoState::kMissing : entry.state;
}

CatalogueRows::CatalogueRows(const std::string& path)
    : db_(path),
      ready_(prepare_schema(db_)),
      by_path_(db_, "SELECT " NDT_COLUMNS " FROM photo WHERE path = ?"),
      same_file_(db_, "SELECT " NDT_COLUMNS
                      " FROM photo WHERE inode = ? AND size = ? AND mtime_ns = ?"
                      " AND digest IS NOT NULL ORDER BY id"),
      by_digest_(db_, "SELECT " NDT_COLUMNS " FROM photo WHERE digest = ? ORDER BY id"),
      after_path_(db_, "SELECT " NDT_COLUMNS " FROM photo WHERE path > ? ORDER BY path LIMIT ?"),
      after_id_(db_, "SELECT " NDT_COLUMNS " FROM photo WHERE id > ? ORDER BY id LIMIT ?"),
      fresh_after_id_(
          db_, "SELECT " NDT_COLUMNS " FROM photo WHERE id > ? AND fresh ORDER BY id LIMIT ?"),
      below_(db_, "SELECT " NDT_COLUMNS " FROM photo WHERE path > ? AND path < ? ORDER BY path"),
      clear_fresh_(db_, "UPDATE photo SET fresh = 0 WHERE id = ?"),
      insert_(db_,
              "INSERT INTO photo(path, size, mtime_ns, inode, digest, state, reason, fresh)"
              " VALUES(?, ?, ?, ?, ?, ?, ?, 1) RETURNING id"),
      update_(db_,
              "UPDATE photo SET size = ?, mtime_ns = ?, inode = ?, digest = ?, state = ?,"
              " reason = ?, fresh = ?, missed = 0 WHERE id = ?"),
      set_missed_(db_, "UPDATE photo SET missed = ? WHERE id = ?"),
      remove_(db_, "DELETE FROM photo WHERE id = ?"),
      add_bad_(db_, "INSERT OR REPLACE INTO bad(digest, reason) VALUES(?, ?)"),
      quarantine_(db_, "UPDATE photo SET state = ?, reason = ? WHERE digest = ?"),
      bad_(db_, "SELECT reason FROM bad WHERE digest = ?"),
      remove_bad_(db_, "DELETE FROM bad WHERE digest = ?"),
      add_damaged_(db_, "INSERT OR REPLACE INTO damaged(path, digest) VALUES(?, ?)"),
      remove_damaged_(db_, "DELETE FROM damaged WHERE path = ?"),
      damaged_(db_,
               "SELECT d.path, d.digest FROM damaged d JOIN photo p ON p.path = d.path"
               " WHERE p.state = ? AND p.missed = 0 ORDER BY d.path") {}

std::vector<CatalogueRow> CatalogueRows::read(sql::Statement& s) {
  std::vector<CatalogueRow> rows;
  while (s.step()) rows.push_back(row_of(s));
  return rows;
}

std::optional<CatalogueRow> CatalogueRows::read_one(sql::Statement& s) {
  std::vector<CatalogueRow> rows = read(s);
  if (rows.empty()) return std::nullopt;
  return std::move(rows.front());
}

std::optional<CatalogueRow> CatalogueRows::by_path(const std::string& path) {
  return read_one(by_path_.bind(blob(path)));
}

std::optional<CatalogueRow> CatalogueRows::same_file(const PhotoRef& ref) {
  if (ref.inode == 0) return std::nullopt;
  for (CatalogueRow& row :
       read(same_file_.bind(static_cast<int64_t>(ref.inode), ref.size, ref.mtime_ns))) {
    if (name_of_path(row.entry.ref.path) == name_of_path(ref.path)) return std::move(row);
  }
  return std::nullopt;
}

std::vector<CatalogueRow> CatalogueRows::by_digest(const Digest& digest) {
  return read(by_digest_.bind(blob(digest)));
}

std::vector<CatalogueRow> CatalogueRows::after_path(const std::string& path, size_t limit) {
  return read(after_path_.bind(blob(path), static_cast<int64_t>(limit)));
}

// Those below "a" are between "a/" and "a0", which is what follows '/'.
std::vector<CatalogueRow> CatalogueRows::at_or_below(const std::string& place) {
  const std::string first = place + '/', end = place + '0';
  std::vector<CatalogueRow> rows = read(below_.bind(blob(first), blob(end)));
  if (std::optional<CatalogueRow> row = by_path(place)) rows.push_back(std::move(*row));
  return rows;
}

std::vector<CatalogueRow> CatalogueRows::after_id(int64_t id, size_t limit, bool only_fresh) {
  return read((only_fresh ? fresh_after_id_ : after_id_).bind(id, static_cast<int64_t>(limit)));
}

int64_t CatalogueRows::insert(const CatalogueEntry& e) {
  insert_.bind(blob(e.ref.path), e.ref.size, e.ref.mtime_ns, static_cast<int64_t>(e.ref.inode),
               blob(e.digest), static_cast<int64_t>(e.state), blob(e.reason));
  insert_.step();
  const int64_t id = insert_.integer(0);
  insert_.run();
  return id;
}

void CatalogueRows::update(int64_t id, const CatalogueEntry& e, bool fresh) {
  update_
      .bind(e.ref.size, e.ref.mtime_ns, static_cast<int64_t>(e.ref.inode), blob(e.digest),
            static_cast<int64_t>(e.state), blob(e.reason), static_cast<int64_t>(fresh), id)
      .run();
}

void CatalogueRows::set_missed(int64_t id, int64_t missed) { set_missed_.bind(missed, id).run(); }

void CatalogueRows::remove(int64_t id) { remove_.bind(id).run(); }

void CatalogueRows::clear_fresh() { db_.execute("UPDATE photo SET fresh = 0 WHERE fresh"); }

void CatalogueRows::clear_fresh(int64_t id) { clear_fresh_.bind(id).run(); }

// Earlier programs did not say so.
bool CatalogueRows::scanned() {
  return db_.integer("PRAGMA application_id") == kScanned ||
         db_.integer("SELECT EXISTS(SELECT 1 FROM photo WHERE NOT fresh)") != 0;
}

void CatalogueRows::set_scanned() {
  if (db_.integer("PRAGMA application_id") == kScanned) return;
  db_.execute("PRAGMA application_id = " + std::to_string(kScanned));
}

CatalogueCounts CatalogueRows::counts() {
  CatalogueCounts c;
  sql::Statement s(db_, "SELECT state, min(missed, 2), count(*) FROM photo GROUP BY 1, 2");
  while (s.step()) {
    CatalogueRow row;
    row.entry.state = static_cast<PhotoState>(s.integer(0));
    row.missed = s.integer(1);
    int64_t* const by_state[] = {&c.ok, &c.quarantined, &c.skipped, &c.missing, &c.deleted};
    *by_state[static_cast<size_t>(row.state())] += s.integer(2);
  }
  return c;
}

void CatalogueRows::remove_bad(const Digest& digest) { remove_bad_.bind(blob(digest)).run(); }

void CatalogueRows::add_bad(const Digest& digest, const std::string& reason) {
  add_bad_.bind(blob(digest), blob(reason)).run();
  quarantine_.bind(static_cast<int64_t>(PhotoState::kQuarantined), blob(reason), blob(digest))
      .run();
}

void CatalogueRows::add_damaged(const std::string& path, const Digest& photo) {
  add_damaged_.bind(blob(path), blob(photo)).run();
}

void CatalogueRows::remove_damaged(const std::string& path) {
  remove_damaged_.bind(blob(path)).run();
}

std::vector<DamagedPhoto> CatalogueRows::damaged() {
  std::vector<DamagedPhoto> all;
  damaged_.bind(static_cast<int64_t>(PhotoState::kQuarantined));
  while (damaged_.step()) {
    DamagedPhoto& d = all.emplace_back(DamagedPhoto{.path = damaged_.bytes(0)});
    const std::string digest = damaged_.bytes(1);
    if (digest.size() == sizeof(Digest)) std::ranges::copy(digest, d.photo.begin());
  }
  return all;
}

std::optional<std::string> CatalogueRows::bad(const Digest& digest) {
  if (!bad_.bind(blob(digest)).step()) return std::nullopt;
  std::string reason = bad_.bytes(0);
  bad_.run();
  return reason;
}

}  // namespace ndtrain::ndp
