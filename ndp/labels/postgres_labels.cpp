#include "ndp/labels/postgres_labels.h"

#include <algorithm>

#include "ndp/labels/label_row.h"
#include "ndp/labels/postgres_schema.h"
#include "ndp/labels/sql_labels.h"

namespace ndtrain::ndp {
namespace {

constexpr std::string_view kPostgresMigrations[] = {
    kPostgresSchema1, kPostgresSchema2, kPostgresSchema3, kPostgresSchema4, kPostgresSchema5};

// What is copied into before it is looked at; each connection has its own.
constexpr const char* kSetUp = R"sql(
SET client_min_messages = warning; SET random_page_cost = 1.1;
CREATE TEMP TABLE new_places (n BIGINT, path BYTEA, sha256 BYTEA) ON COMMIT DELETE ROWS;
CREATE TEMP TABLE new_flags (photo BIGINT, seq BIGINT, current BIGINT) ON COMMIT DELETE ROWS;
CREATE TEMP TABLE new_labels (photo BIGINT, seq BIGINT, class BIGINT, score DOUBLE PRECISION,
  store BIGINT, time BIGINT, at_random BIGINT, current BIGINT, top_k BYTEA)
  ON COMMIT DELETE ROWS;
CREATE TEMP TABLE new_counts (collection BIGINT, task BIGINT, version BIGINT, seconds BIGINT,
  since BIGINT, class BIGINT, labels BIGINT, scores DOUBLE PRECISION) ON COMMIT DELETE ROWS;
)sql";

// One writer at a time. What a writer does are point accesses, which the planner, that knows
// nothing of the tables above, might take for whole scans.
constexpr const char* kBeginToWrite =
    "BEGIN; SELECT pg_advisory_xact_lock(1313100876);"
    "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off";
// Pages come in the order of an index; where the planner expects few rows, it would read all that
// match and sort them. What is off counts as very dear, and so dear a plan would be compiled first.
constexpr const char* kBeginToRead =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
    "SET LOCAL enable_sort = off; SET LOCAL jit = off";

class PostgresRow final : public SqlRow {
 public:
  PostgresRow(const postgres::Answer& answer, int row) : answer_(answer), row_(row) {}
  int64_t integer(int column) const override { return answer_.integer(row_, column); }
  double real(int column) const override { return answer_.real(row_, column); }
  std::string bytes(int column) const override { return answer_.bytes(row_, column); }
  bool is_null(int column) const override { return answer_.is_null(row_, column); }

 private:
  const postgres::Answer& answer_;
  int row_;
};

std::string_view text_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

PostgresLabels::PostgresLabels(const std::string& url) : db_(url, kSetUp) {}

Result<std::unique_ptr<LabelDb>> PostgresLabels::open(const std::string& url, OpenLabelDb mode) {
  try {
    std::unique_ptr<PostgresLabels> labels(new PostgresLabels(url));
    labels->migrate(mode);
    return std::unique_ptr<LabelDb>(std::make_unique<SqlLabels>(std::move(labels)));
  } catch (const sql::Failure& failure) {
    return Status(failure.status.code(), "label database: " + failure.status.message());
  }
}

void PostgresLabels::migrate(OpenLabelDb mode) {
  db_.start(kBeginToWrite);
  const auto has = [&](std::string_view name) {
    const postgres::Value v[] = {name};
    return !db_.query("SELECT to_regclass(convert_from(?, 'UTF8'))", v).is_null(0, 0);
  };
  int64_t version = 0;
  if (has("ndtrain_labels")) {
    version = db_.query("SELECT schema_version FROM ndtrain_labels", {}).integer(0, 0);
  } else if (has("labels") || has("photos") || has("collections")) {
    throw sql::Failure{Status(Code::kUnsupported, "the database has tables of somebody else's")};
  } else if (mode == OpenLabelDb::kExisting) {
    throw sql::Failure{Status(Code::kNotFound,
                              "there are no labels in this database; ndtrain relabel makes them")};
  }
  const auto newest = static_cast<int64_t>(std::size(kPostgresMigrations));
  if (version > newest || version < 0) {
    throw sql::Failure{Status(Code::kUnsupported,
                              "the label database has schema version " + std::to_string(version) +
                                  ", this program knows " + std::to_string(newest))};
  }
  for (int64_t v = version; v < newest; ++v) {
    db_.execute(std::string(kPostgresMigrations[static_cast<size_t>(v)]));
  }
  if (version == 0) db_.execute("CREATE TABLE ndtrain_labels AS SELECT 0::bigint schema_version");
  if (version < newest) {
    db_.execute("UPDATE ndtrain_labels SET schema_version = " + std::to_string(newest));
  }
  db_.commit();
}

void PostgresLabels::begin(bool to_write) { db_.start(to_write ? kBeginToWrite : kBeginToRead); }
void PostgresLabels::commit() { db_.commit(); }
void PostgresLabels::rollback() noexcept { db_.rollback(); }

void PostgresLabels::each(const std::string& sql, std::span<const SqlValue> values,
                          const RowFn& row) {
  std::vector<postgres::Value> converted;
  for (const SqlValue& v : values) {
    std::visit([&](const auto& x) { converted.emplace_back(x); }, v);
  }
  const postgres::Answer answer = db_.query(sql, converted);
  for (int i = 0; i < answer.rows(); ++i) row(PostgresRow(answer, i));
}

std::string PostgresLabels::contains(const char* column) const {
  return "position(? IN " + std::string(column) + ") > 0";
}

LabelTables::Placing PostgresLabels::place_photos(int64_t collection,
                                                  std::span<const PhotoPlace> places) {
  postgres::CopyRows rows(3);
  int64_t n = 0;
  for (const PhotoPlace& place : places) {
    rows.begin_row();
    rows.integer(n++);
    rows.bytes(place.path);
    rows.bytes(text_of(place.digest));
  }
  db_.copy("COPY new_places", rows.finish());
  db_.execute(
      "INSERT INTO photos (sha256) SELECT n.sha256 FROM new_places n WHERE NOT EXISTS"
      " (SELECT 1 FROM photos ph WHERE ph.sha256 = n.sha256) GROUP BY n.sha256 ORDER BY min(n.n)");
  const postgres::Value values[] = {collection};
  const postgres::Answer found = db_.query(
      "SELECT ph.id, p.photo, p.photo IS DISTINCT FROM ph.id FROM new_places n"
      " JOIN photos ph ON ph.sha256 = n.sha256"
      " LEFT JOIN places p ON p.collection = ? AND p.path = n.path ORDER BY n.n",
      values);
  Placing placing;
  for (int i = 0; i < found.rows(); ++i) {
    placing.photos.push_back(found.integer(i, 0));
    if (found.integer(i, 2) == 0) continue;
    placing.places.push_back(static_cast<size_t>(i));
    placing.moved.push_back(found.integer(i, 0));
    if (!found.is_null(i, 1)) placing.moved.push_back(found.integer(i, 1));
  }
  return placing;
}

// What place_photos() has copied is there until the transaction ends.
void PostgresLabels::put_places(int64_t collection, std::span<const PhotoPlace>,
                                const Placing& placing) {
  if (placing.places.empty()) return;
  const postgres::Value into[] = {collection};
  db_.query(
      "INSERT INTO places (collection, path, photo)"
      " SELECT DISTINCT ON (n.path) ?, n.path, ph.id FROM new_places n"
      " JOIN photos ph ON ph.sha256 = n.sha256 ORDER BY n.path, n.n DESC"
      " ON CONFLICT (collection, path) DO UPDATE SET photo = excluded.photo"
      " WHERE places.photo <> excluded.photo",
      into);
}

void PostgresLabels::each_of(std::span<const int64_t> photos, const std::string& columns,
                             const std::string& table, const std::string& condition,
                             const RowFn& row) {
  const postgres::Value values[] = {photos};
  const postgres::Answer answer = db_.query("SELECT " + columns + " FROM unnest(?) u (id) JOIN " +
                                                table + " ON photo = u.id WHERE TRUE" + condition,
                                            values);
  for (int i = 0; i < answer.rows(); ++i) row(PostgresRow(answer, i));
}

std::vector<std::optional<StoredLabel>> PostgresLabels::newest_labels(
    int64_t task, std::span<const int64_t> photos) {
  static const std::string kSql =
      "SELECT u.n, l.* FROM unnest(?) WITH ORDINALITY u (photo, n) CROSS JOIN LATERAL (SELECT " +
      std::string(kHeldColumns) +
      " FROM labels l WHERE l.photo = u.photo AND l.task = ? ORDER BY l.seq DESC LIMIT 1) l";
  const postgres::Value values[] = {photos, task};
  const postgres::Answer answer = db_.query(kSql, values);
  std::vector<std::optional<StoredLabel>> found(photos.size());
  for (int i = 0; i < answer.rows(); ++i) {
    found[static_cast<size_t>(answer.integer(i, 0) - 1)] = held_label(PostgresRow(answer, i), 1);
  }
  return found;
}

std::vector<std::vector<StoredLabel>> PostgresLabels::all_labels(int64_t task,
                                                                 std::span<const int64_t> photos) {
  static const std::string kSql = "SELECT u.n, " + std::string(kHeldColumns) +
                                  " FROM unnest(?) WITH ORDINALITY u (photo, n)"
                                  " JOIN labels l ON l.photo = u.photo AND l.task = ?"
                                  " ORDER BY u.n, l.seq";
  const postgres::Value values[] = {photos, task};
  const postgres::Answer answer = db_.query(kSql, values);
  std::vector<std::vector<StoredLabel>> found(photos.size());
  for (int i = 0; i < answer.rows(); ++i) {
    found[static_cast<size_t>(answer.integer(i, 0) - 1)].push_back(
        held_label(PostgresRow(answer, i), 1));
  }
  return found;
}

void PostgresLabels::write(const LabelWrites& writes) {
  if (!writes.flags.empty()) flag(writes);
  if (!writes.rows.empty()) insert(writes);
}

void PostgresLabels::flag(const LabelWrites& writes) {
  postgres::CopyRows rows(3);
  for (const LabelWrites::Flag& f : writes.flags) {
    rows.begin_row();
    rows.integer(f.photo);
    rows.integer(f.label.seq);
    rows.integer(f.current);
  }
  db_.copy("COPY new_flags", rows.finish());
  const postgres::Value task[] = {writes.task};
  db_.query(
      "UPDATE labels l SET current = n.current FROM new_flags n"
      " WHERE l.photo = n.photo AND l.task = ? AND l.seq = n.seq",
      task);
  db_.execute("TRUNCATE new_flags");
}

void PostgresLabels::insert(const LabelWrites& w) {
  postgres::CopyRows rows(9);
  for (const LabelWrites::Row& r : w.rows) {
    const NewLabel& l = *r.label;
    rows.begin_row();
    rows.integer(l.photo);
    rows.integer(r.seq);
    rows.integer(l.class_id);
    l.score ? rows.real(*l.score) : rows.null();
    l.store ? rows.integer(*l.store) : rows.null();
    rows.integer(r.time);
    rows.integer(l.at_random);
    rows.integer(r.current);
    l.top_k.empty() ? rows.null() : rows.bytes(top_k_blob(l.top_k));
  }
  db_.copy("COPY new_labels", rows.finish());
  const postgres::Value task[] = {w.task};
  const postgres::Answer strangers = db_.query(
      "SELECT count(*) FROM new_labels n WHERE"
      " NOT EXISTS (SELECT 1 FROM photos WHERE id = n.photo) OR"
      " NOT EXISTS (SELECT 1 FROM classes WHERE task = ? AND id = n.class) OR"
      " n.store IS NOT NULL AND NOT EXISTS (SELECT 1 FROM stores WHERE id = n.store)",
      task);
  if (const int64_t n = strangers.integer(0, 0); n > 0) {
    throw sql::Failure{Status(Code::kNotFound, "labels: " + std::to_string(n) +
                                                   " of them name a photo, class or store that is"
                                                   " not there")};
  }
  const postgres::Value values[] = {w.task, static_cast<int64_t>(w.source),
                                    w.version ? postgres::Value(*w.version) : postgres::Value()};
  db_.query(
      "INSERT INTO labels (photo, task, seq, class, score, source, version, store, time, at_random,"
      " current, top_k) SELECT n.photo, ?, n.seq, n.class, n.score, ?, ?::bigint, n.store, n.time,"
      " n.at_random, n.current, n.top_k FROM new_labels n ORDER BY n.photo, n.seq",
      values);
}

void PostgresLabels::write_counts(const LabelCountRows& counts) {
  if (counts.empty()) return;
  postgres::CopyRows rows(8);
  for (const auto& [k, count] : counts) {
    rows.begin_row();
    for (const int64_t v : {k.collection, k.task, k.version, k.seconds, k.since, k.class_id}) {
      rows.integer(v);
    }
    rows.integer(count.labels);
    rows.real(count.scores);
  }
  db_.copy("COPY new_counts", rows.finish());
  db_.execute(
      "INSERT INTO label_counts AS c SELECT * FROM new_counts"
      " ON CONFLICT (collection, task, version, seconds, since, class) DO UPDATE SET"
      " labels = c.labels + excluded.labels, scores = c.scores + excluded.scores");
  const auto takes = [](const auto& count) { return count.second.labels <= 0; };
  if (std::ranges::any_of(counts, takes)) {
    db_.execute(
        "DELETE FROM label_counts c USING new_counts n WHERE c.labels = 0"
        " AND c.collection = n.collection AND c.task = n.task AND c.version = n.version"
        " AND c.seconds = n.seconds AND c.since = n.since AND c.class = n.class");
  }
  db_.execute("TRUNCATE new_counts");
}

void PostgresLabels::scrub() {
  // The rewritten files hold what is there and no more, the statistics are made from them.
  db_.start("SET lock_timeout = '10s'");
  for (const char* table :
       {"labels", "label_counts", "label_issues", "places", "trash_places", "trash", "photos"}) {
    db_.execute(std::string("VACUUM (FULL, ANALYZE) ") + table);
  }
  db_.execute("RESET lock_timeout");
}

// Its own daemon does so too, but up to a minute later, and the first query until then pays.
void PostgresLabels::sweep() { db_.start("VACUUM labels, label_counts"); }

}  // namespace ndtrain::ndp
