#include "ndp/labels/sqlite_labels.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ndp/labels/label_row.h"
#include "ndp/labels/migrations.h"
#include "ndp/labels/schema.h"
#include "ndp/labels/sql_labels.h"

namespace ndtrain::ndp {
namespace {

class SqliteRow final : public SqlRow {
 public:
  explicit SqliteRow(const sql::Statement& statement) : statement_(statement) {}
  int64_t integer(int column) const override { return statement_.integer(column); }
  double real(int column) const override { return statement_.real(column); }
  std::string bytes(int column) const override { return statement_.bytes(column); }
  bool is_null(int column) const override { return statement_.is_null(column); }

 private:
  const sql::Statement& statement_;
};

void bind(sql::Statement& statement, int i, const SqlValue& value) {
  std::visit(
      [&](const auto& v) {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::monostate>) {
          statement.bind_one(i, std::nullopt);
        } else {
          statement.bind_one(i, v);
        }
      },
      value);
}

// Of several places with one path the last one counts. By path.
std::vector<size_t> last_of_each_path(std::span<const PhotoPlace> places) {
  std::vector<size_t> order(places.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto path = [&](size_t i) -> const std::string& { return places[i].path; };
  std::ranges::stable_sort(order, {}, path);
  std::ranges::reverse(order);
  const auto rest = std::ranges::unique(order, {}, path);
  order.erase(rest.begin(), rest.end());
  std::ranges::reverse(order);
  return order;
}

void bring_up_to_date(sql::Database& db) {
  const int64_t version = db.integer("PRAGMA user_version");
  if (version > 0 && version < kFirstWithChecksums) db.add_checksums();
  migrate(db, label_migrations());
  if (db.has_checksums() || !db.has_file()) return;
  throw sql::Failure{Status(Code::kCorrupt,
                            "its pages have no checksums, so its header is not as it was written")};
}

}  // namespace

Result<std::unique_ptr<LabelDb>> SqliteLabels::open(const std::string& path, int64_t max_pages) {
  try {
    std::unique_ptr<SqliteLabels> labels(new SqliteLabels(path));
    // FULL: what a person said must outlive a power cut. It costs one fsync per batch. The log is
    // copied back every 64 MiB: index pages are hit by batch after batch.
    labels->db_.execute(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=16384;"
        "PRAGMA cache_size=-65536");
    if (max_pages > 0) {
      labels->db_.execute("PRAGMA max_page_count=" + std::to_string(max_pages));
    }
    bring_up_to_date(labels->db_);
    return std::unique_ptr<LabelDb>(std::make_unique<SqlLabels>(std::move(labels)));
  } catch (const sql::Failure& failure) {
    return Status(failure.status.code(),
                  "label database " + path + ": " + failure.status.message());
  }
}

sql::Statement& SqliteLabels::prepared(const std::string& sql) {
  auto it = statements_.find(sql);
  if (it == statements_.end()) {
    it = statements_.emplace(sql, std::unique_ptr<Prepared>(new Prepared{{db_, sql}})).first;
  }
  if (!std::exchange(it->second->used, true)) used_.push_back(it->second.get());
  return it->second->statement;
}

// Of dozens that are prepared a call uses few.
void SqliteLabels::reset_statements() {
  for (Prepared* const p : used_) {
    p->statement.reset();
    p->used = false;
  }
  used_.clear();
}

void SqliteLabels::begin(bool to_write) { prepared(to_write ? "BEGIN IMMEDIATE" : "BEGIN").run(); }

void SqliteLabels::commit() {
  reset_statements();
  prepared("COMMIT").run();
}

void SqliteLabels::rollback() noexcept {
  reset_statements();
  try {
    db_.execute("ROLLBACK");
  } catch (const sql::Failure&) {  // it never began, or SQLite has rolled back by itself
  }
}

void SqliteLabels::each(const std::string& sql, std::span<const SqlValue> values,
                        const RowFn& row) {
  sql::Statement& statement = prepared(sql);
  statement.reset();
  for (size_t i = 0; i < values.size(); ++i) bind(statement, static_cast<int>(i), values[i]);
  const SqliteRow view(statement);
  while (statement.step()) row(view);
}

std::string SqliteLabels::by_index(const char* name) const {
  return std::string(" INDEXED BY ") + name;
}

std::string SqliteLabels::contains(const char* column) const {
  return "instr(CAST(" + std::string(column) + " AS BLOB), CAST(? AS BLOB)) > 0";
}

// Photos lie in the order in which they came, paths in their own: what is new goes in last, in the
// order of its paths, so that neighbours fall on one page.
LabelTables::Placing SqliteLabels::place_photos(int64_t collection,
                                                std::span<const PhotoPlace> places) {
  sql::Statement& find = prepared(
      "SELECT ph.id, EXISTS (SELECT 1 FROM places p WHERE p.photo = ph.id AND p.collection = ?"
      " AND p.path = ?) FROM photos ph WHERE ph.sha256 = ?");
  sql::Statement& insert = prepared("INSERT INTO photos (sha256) VALUES (?)");
  sql::Statement& displaced =
      prepared("SELECT photo FROM places WHERE collection = ? AND path = ?");
  Placing placing;
  std::vector<bool> there;
  for (const PhotoPlace& place : places) {
    const std::span<const uint8_t> digest(place.digest);
    const bool known = find.bind(collection, std::string_view(place.path), digest).step();
    there.push_back(known && find.integer(1) != 0);
    if (!known) insert.bind(digest).run();
    placing.photos.push_back(known ? find.integer(0) : db_.last_id());
  }
  find.reset();
  for (const size_t i : last_of_each_path(places)) {
    if (there[i]) continue;
    placing.places.push_back(i);
    placing.moved.push_back(placing.photos[i]);
    displaced.bind(collection, std::string_view(places[i].path));
    if (displaced.step()) placing.moved.push_back(displaced.integer(0));
  }
  displaced.reset();
  return placing;
}

void SqliteLabels::put_places(int64_t collection, std::span<const PhotoPlace> places,
                              const Placing& placing) {
  sql::Statement& put = prepared(
      "INSERT INTO places (collection, path, photo) VALUES (?, ?, ?)"
      " ON CONFLICT (collection, path) DO UPDATE SET photo = excluded.photo"
      " WHERE photo <> excluded.photo");
  for (const size_t i : placing.places) {
    put.bind(collection, std::string_view(places[i].path), placing.photos[i]).run();
  }
}

void SqliteLabels::each_of(std::span<const int64_t> photos, const std::string& columns,
                           const std::string& table, const std::string& condition,
                           const RowFn& row) {
  sql::Statement& of_photo =
      prepared("SELECT " + columns + " FROM " + table + " WHERE photo = ?" + condition);
  const SqliteRow view(of_photo);
  for (const int64_t photo : photos) {
    for (of_photo.bind(photo); of_photo.step();) row(view);
  }
  of_photo.reset();
}

std::vector<std::optional<StoredLabel>> SqliteLabels::newest_labels(
    int64_t task, std::span<const int64_t> photos) {
  static const std::string kSql = "SELECT " + std::string(kHeldColumns) +
                                  " FROM labels l WHERE l.photo = ? AND l.task = ?"
                                  " ORDER BY l.seq DESC LIMIT 1";
  sql::Statement& newest = prepared(kSql);
  const SqliteRow row(newest);
  std::vector<std::optional<StoredLabel>> found(photos.size());
  for (size_t i = 0; i < photos.size(); ++i) {
    if (newest.bind(photos[i], task).step()) found[i] = held_label(row, 0);
  }
  newest.reset();
  return found;
}

std::vector<std::vector<StoredLabel>> SqliteLabels::all_labels(int64_t task,
                                                               std::span<const int64_t> photos) {
  static const std::string kSql = "SELECT " + std::string(kHeldColumns) +
                                  " FROM labels l WHERE l.photo = ? AND l.task = ? ORDER BY l.seq";
  sql::Statement& all = prepared(kSql);
  const SqliteRow row(all);
  std::vector<std::vector<StoredLabel>> found(photos.size());
  for (size_t i = 0; i < photos.size(); ++i) {
    for (all.bind(photos[i], task); all.step();) found[i].push_back(held_label(row, 0));
  }
  return found;
}

void SqliteLabels::write(const LabelWrites& w) {
  sql::Statement& flag =
      prepared("UPDATE labels SET current = ? WHERE photo = ? AND task = ? AND seq = ?");
  for (const LabelWrites::Flag& f : w.flags) {
    flag.bind(int64_t{f.current}, f.photo, w.task, f.label.seq).run();
  }
  sql::Statement& insert = prepared(
      "INSERT INTO labels (photo, task, seq, class, score, source, version, store, time,"
      " at_random, current, top_k) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  for (const LabelWrites::Row& r : w.rows) {
    const NewLabel& l = *r.label;
    const std::string top_k = top_k_blob(l.top_k);
    const auto blob = std::span(reinterpret_cast<const uint8_t*>(top_k.data()), top_k.size());
    insert
        .bind(l.photo, w.task, r.seq, l.class_id, l.score, static_cast<int64_t>(w.source),
              w.version, l.store, r.time, int64_t{l.at_random}, int64_t{r.current},
              l.top_k.empty() ? std::nullopt : std::optional(blob))
        .run();
  }
}

void SqliteLabels::write_counts(const LabelCountRows& counts) {
  sql::Statement& add = prepared(
      "INSERT INTO label_counts (collection, task, version, seconds, since, class, labels, scores)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
      " labels = labels + excluded.labels, scores = scores + excluded.scores");
  sql::Statement& drop = prepared(
      "DELETE FROM label_counts WHERE collection = ? AND task = ? AND version = ? AND seconds = ?"
      " AND since = ? AND class = ? AND labels = 0");
  for (const auto& [k, count] : counts) {
    add.bind(k.collection, k.task, k.version, k.seconds, k.since, k.class_id, count.labels,
             count.scores)
        .run();
    if (count.labels > 0) continue;
    drop.bind(k.collection, k.task, k.version, k.seconds, k.since, k.class_id).run();
  }
}

std::optional<int64_t> SqliteLabels::written_by_others() {
  return db_.integer("PRAGMA data_version");
}

void SqliteLabels::scrub() {
  reset_statements();
  db_.execute("VACUUM");
  // 0: the log is all in the file, and empty.
  if (db_.integer("PRAGMA wal_checkpoint(TRUNCATE)") != 0) {
    throw sql::Failure{Status(Code::kIo, "somebody else reads the database at the moment")};
  }
}

}  // namespace ndtrain::ndp
