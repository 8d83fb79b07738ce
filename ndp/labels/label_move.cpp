#include "ndp/labels/label_move.h"

#include <bit>
#include <span>
#include <string_view>

#include "ndp/labels/migrations.h"

namespace ndtrain::ndp {
namespace {

constexpr int64_t kMovedRowsAtOnce = 4096;

enum class CellKind { kInteger, kSmall, kReal, kBytes };

struct LabelColumn {
  std::string_view name;
  CellKind kind = CellKind::kInteger;
};

struct LabelTableShape {
  std::string_view name;
  std::string_view key;  // columns that it is sorted by
  std::vector<LabelColumn> columns;
  bool counts_ids = false;  // the server draws the next `id`
};

// In an order in which each refers to what is there.
const std::vector<LabelTableShape>& label_table_shapes() {
  using enum CellKind;
  static const std::vector<LabelTableShape> all = {
      {"collections", "id", {{"id"}, {"name", kBytes}}, true},
      {"stores", "id", {{"id"}, {"name", kBytes}}, true},
      {"photos", "id", {{"id"}, {"sha256", kBytes}}, true},
      {"places", "collection, path", {{"collection"}, {"path", kBytes}, {"photo"}}},
      {"tasks", "id", {{"id"}, {"name", kBytes}}, true},
      {"classes", "task, id", {{"task"}, {"id"}, {"name", kBytes}}},
      {"versions",
       "id",
       {{"id"},
        {"task"},
        {"content", kBytes},
        {"parent"},
        {"created"},
        {"metrics", kBytes},
        {"withdrawn"},
        {"number"}},
       true},
      {"labels",
       "photo, task, seq",
       {{"photo"},
        {"task"},
        {"seq"},
        {"class"},
        {"version"},
        {"store"},
        {"time"},
        {"score", kReal},
        {"source", kSmall},
        {"at_random", kSmall},
        {"current", kSmall},
        {"top_k", kBytes}}},
      {"trash", "sha256", {{"sha256", kBytes}}},
      {"trash_places", "photo, collection, path", {{"photo"}, {"collection"}, {"path", kBytes}}},
      {"label_issues",
       "task, photo",
       {{"task"},
        {"photo"},
        {"class"},
        {"score", kReal},
        {"suggested"},
        {"suggested_score", kReal},
        {"answered", kSmall}}},
      {"photo_counts", "collection", {{"collection"}, {"photos"}}},
      {"label_counts",
       "collection, task, version, seconds, since, class",
       {{"collection"},
        {"task"},
        {"version"},
        {"seconds"},
        {"since"},
        {"class"},
        {"labels"},
        {"scores", kReal}}}};
  return all;
}

// Refers to versions, which refer to tasks.
const LabelTableShape& tasks_in_force() {
  static const LabelTableShape table = {"tasks", "id", {{"id"}, {"in_force"}}};
  return table;
}

std::string column_names(const LabelTableShape& table) {
  std::string names;
  for (const LabelColumn& c : table.columns) names.append(names.empty() ? "" : ", ").append(c.name);
  return names;
}

std::string select_all(const LabelTableShape& table) {
  return "SELECT " + column_names(table) + " FROM " + std::string(table.name) + " ORDER BY " +
         std::string(table.key);
}

// Of a statement of SQLite, or of a row of an answer.
struct MovedRow {
  const postgres::Answer& answer;
  int row;
  bool is_null(int c) const { return answer.is_null(row, c); }
  int64_t integer(int c) const { return answer.integer(row, c); }
  double real(int c) const { return answer.real(row, c); }
  std::string bytes(int c) const { return answer.bytes(row, c); }
};

class LabelTableDigest {
 public:
  explicit LabelTableDigest(const LabelTableShape& table) : table_(table) {}

  template <typename Row>
  void add(const Row& row) {
    ++rows_;
    int c = 0;
    for (const LabelColumn& column : table_.columns) {
      const int at = c++;
      hash_.field(int64_t{row.is_null(at)});
      if (row.is_null(at)) continue;
      if (column.kind == CellKind::kBytes) {
        hash_.field(row.bytes(at));
      } else if (column.kind == CellKind::kReal) {
        hash_.field(std::bit_cast<int64_t>(row.real(at)));
      } else {
        hash_.field(row.integer(at));
      }
    }
  }
  LabelTable finish() {
    return {.name = std::string(table_.name), .rows = rows_, .digest = hash_.finish()};
  }

 private:
  const LabelTableShape& table_;
  Sha256 hash_;
  int64_t rows_ = 0;
};

void put_cells(postgres::CopyRows& to, const LabelTableShape& table, const sql::Statement& row) {
  to.begin_row();
  int c = 0;
  for (const LabelColumn& column : table.columns) {
    const int at = c++;
    if (row.is_null(at)) {
      to.null();
    } else if (column.kind == CellKind::kBytes) {
      to.bytes(row.bytes(at));
    } else if (column.kind == CellKind::kReal) {
      to.real(row.real(at));
    } else if (column.kind == CellKind::kSmall) {
      to.small_integer(static_cast<int16_t>(row.integer(at)));
    } else {
      to.integer(row.integer(at));
    }
  }
}

LabelTable copy_label_table(sql::Database& from, postgres::Connection& to,
                            const LabelTableShape& table) {
  const std::string into = "COPY " + std::string(table.name) + " (" + column_names(table) + ")";
  const int columns = static_cast<int>(table.columns.size());
  LabelTableDigest digest(table);
  sql::Statement rows(from, select_all(table));
  for (bool more = rows.step(); more;) {
    postgres::CopyRows some(columns);
    for (int64_t n = 0; more && n < kMovedRowsAtOnce; ++n, more = rows.step()) {
      put_cells(some, table, rows);
      digest.add(rows);
    }
    to.copy(into, some.finish());
  }
  return digest.finish();
}

LabelTable read_label_table_back(postgres::Connection& db, const LabelTableShape& table,
                                 const std::string& cursor) {
  db.execute("DECLARE " + cursor + " NO SCROLL CURSOR FOR " + select_all(table));
  const std::string fetch = "FETCH " + std::to_string(kMovedRowsAtOnce) + " FROM " + cursor;
  LabelTableDigest digest(table);
  for (bool more = true; more;) {
    const postgres::Answer some = db.query(fetch, {});
    for (int i = 0; i < some.rows(); ++i) digest.add(MovedRow{some, i});
    more = some.rows() > 0;
  }
  db.execute("CLOSE " + cursor);
  return digest.finish();
}

LabelTable rows_in_file(sql::Database& from, const LabelTableShape& table) {
  LabelTableDigest digest(table);
  sql::Statement rows(from, select_all(table));
  while (rows.step()) digest.add(rows);
  return digest.finish();
}

void demand_same_rows(const LabelTable& written, const LabelTable& read) {
  if (written == read) return;
  throw sql::Failure{Status(Code::kCorrupt, "labels: the server has " + std::to_string(read.rows) +
                                                " rows of " + read.name +
                                                " as they are not in the file, which has " +
                                                std::to_string(written.rows))};
}

// A deleted photo's id is never given to another.
void count_ids_on(sql::Database& from, postgres::Connection& to, const LabelTableShape& table) {
  const std::string name(table.name);
  const int64_t last = from.integer(
      "SELECT max(coalesce((SELECT max(id) FROM " + name +
      "), 0), coalesce((SELECT seq FROM sqlite_sequence WHERE name = '" + name + "'), 0))");
  if (last == 0) return;
  const postgres::Value to_last[] = {last};
  (void)to.query("SELECT setval(pg_get_serial_sequence('" + name + "', 'id'), ?)", to_last);
}

void set_tasks_in_force(sql::Database& from, postgres::Connection& to) {
  sql::Statement rows(from, select_all(tasks_in_force()));
  while (rows.step()) {
    if (rows.is_null(1)) continue;
    const postgres::Value set[] = {rows.integer(1), rows.integer(0)};
    (void)to.query("UPDATE tasks SET in_force = ? WHERE id = ?", set);
  }
}

void demand_newest_format(sql::Database& from) {
  const int64_t version = from.integer("PRAGMA user_version");
  if (version == static_cast<int64_t>(label_migrations().size())) return;
  throw sql::Failure{Status(
      Code::kUnsupported, "the labels are of another program's format (" + std::to_string(version) +
                              ", this one's is " + std::to_string(label_migrations().size()) +
                              "); start the Tuner once with this one, which brings them to it")};
}

}  // namespace

std::vector<LabelTable> label_tables_of(sql::Database& from) {
  demand_newest_format(from);
  std::vector<LabelTable> all;
  for (const LabelTableShape& table : label_table_shapes())
    all.push_back(rows_in_file(from, table));
  return all;
}

bool has_labels(postgres::Connection& db) {
  const auto there = [&](const std::string& what) {
    return !db.query("SELECT to_regclass('" + what + "')", {}).is_null(0, 0);
  };
  if (!there("ndtrain_labels")) return false;
  for (const LabelTableShape& table : label_table_shapes()) {
    const std::string name(table.name);
    if (!there(name)) continue;  // of an earlier program
    if (db.query("SELECT 1 FROM " + name + " LIMIT 1", {}).rows() > 0) return true;
  }
  return false;
}

std::vector<LabelTable> copy_labels(sql::Database& from, postgres::Connection& to,
                                    const std::function<void(const std::string&)>& on_table) {
  demand_newest_format(from);
  std::vector<LabelTable> all;
  for (const LabelTableShape& table : label_table_shapes()) {
    on_table(std::string(table.name));
    all.push_back(copy_label_table(from, to, table));
    if (table.counts_ids) count_ids_on(from, to, table);
  }
  set_tasks_in_force(from, to);
  for (size_t i = 0; i < all.size(); ++i) {
    const LabelTableShape& table = label_table_shapes()[i];
    demand_same_rows(all[i], read_label_table_back(to, table, "moved_" + std::string(table.name)));
  }
  demand_same_rows(rows_in_file(from, tasks_in_force()),
                   read_label_table_back(to, tasks_in_force(), "moved_in_force"));
  return all;
}

}  // namespace ndtrain::ndp
