// Names, classes, versions and photos; labels are put in sqlite_put.cpp, asked for in
// sqlite_query.cpp.
#include "ndp/labels/sqlite_labels.h"

#include "framework/core/limits.h"
#include "ndp/labels/label_row.h"
#include "ndp/labels/migrations.h"

namespace ndtrain {

Result<std::unique_ptr<LabelDb>> SqliteLabels::open(const std::string& path, int64_t max_pages) {
  try {
    std::unique_ptr<SqliteLabels> labels(new SqliteLabels(path));
    // FULL: what a person said must outlive a power cut. It costs one fsync per batch.
    labels->db_.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL");
    if (max_pages > 0) {
      labels->db_.execute("PRAGMA max_page_count=" + std::to_string(max_pages));
    }
    migrate(labels->db_, label_migrations());
    return std::unique_ptr<LabelDb>(std::move(labels));
  } catch (const sql::SqliteFailure& failure) {
    return Status(failure.status.code(),
                  "label database " + path + ": " + failure.status.message());
  }
}

sql::Statement& SqliteLabels::prepared(const char* sql) {
  auto it = statements_.find(sql);
  if (it == statements_.end()) {
    it = statements_.emplace(sql, std::make_unique<sql::Statement>(db_, sql)).first;
  }
  return *it->second;
}

int64_t SqliteLabels::named(const char* insert, const char* select, std::string_view name) {
  sql::Statement& find = prepared(select);
  if (find.bind(name).step()) return find.integer(0);
  prepared(insert).bind(name).run();
  find.bind(name).step();
  return find.integer(0);
}

Result<int64_t> SqliteLabels::collection(std::string_view name) {
  return guarded([&] {
    return named("INSERT INTO collections (name) VALUES (?) ON CONFLICT DO NOTHING",
                 "SELECT id FROM collections WHERE name = ?", name);
  });
}

Result<int64_t> SqliteLabels::task(std::string_view name) {
  return guarded([&] {
    return named("INSERT INTO tasks (name) VALUES (?) ON CONFLICT DO NOTHING",
                 "SELECT id FROM tasks WHERE name = ?", name);
  });
}

Result<std::vector<std::string>> SqliteLabels::names(const char* select) {
  return guarded([&] {
    std::vector<std::string> found;
    sql::Statement& row = prepared(select);
    for (row.bind(); row.step();) found.push_back(row.bytes(0));
    return found;
  });
}

Result<std::vector<std::string>> SqliteLabels::collections() {
  return names("SELECT name FROM collections ORDER BY name");
}

Result<std::vector<std::string>> SqliteLabels::tasks() {
  return names("SELECT name FROM tasks ORDER BY name");
}

Result<std::vector<int64_t>> SqliteLabels::class_ids(int64_t task,
                                                     std::span<const std::string> names) {
  return guarded([&] {
    sql::Transaction transaction(db_);
    sql::Statement& insert = prepared(
        "INSERT INTO classes (task, id, name)"
        " SELECT ?1, coalesce(max(id) + 1, 0), ?2 FROM classes WHERE task = ?1"
        " ON CONFLICT (task, name) DO NOTHING");
    sql::Statement& find = prepared("SELECT id FROM classes WHERE task = ? AND name = ?");
    std::vector<int64_t> ids;
    for (const std::string& name : names) {
      if (!find.bind(task, std::string_view(name)).step()) {
        insert.bind(task, std::string_view(name)).run();
        find.bind(task, std::string_view(name)).step();
      }
      ids.push_back(find.integer(0));
    }
    transaction.commit();
    return ids;
  });
}

Result<std::vector<ClassInfo>> SqliteLabels::classes(int64_t task) {
  return guarded([&] {
    std::vector<ClassInfo> classes;
    sql::Statement& row = prepared("SELECT id, name FROM classes WHERE task = ? ORDER BY id");
    for (row.bind(task); row.step();) classes.push_back({row.integer(0), row.bytes(1)});
    return classes;
  });
}

Result<int64_t> SqliteLabels::version(int64_t task, const NewVersion& version) {
  return guarded([&] {
    sql::Transaction transaction(db_);
    sql::Statement& find = prepared("SELECT id FROM versions WHERE task = ? AND content = ?");
    const auto id_of = [&](const Digest& content) -> std::optional<int64_t> {
      if (!find.bind(task, std::span<const uint8_t>(content)).step()) return {};
      return find.integer(0);
    };
    std::optional<int64_t> id = id_of(version.content);
    if (!id) {
      const auto parent = version.parent ? id_of(*version.parent) : std::nullopt;
      prepared(
          "INSERT INTO versions (task, content, parent, created, metrics) VALUES (?, ?, ?, ?, ?)")
          .bind(task, std::span<const uint8_t>(version.content), parent, version.created,
                std::string_view(version.metrics))
          .run();
      id = db_.last_id();
    }
    transaction.commit();
    return *id;
  });
}

Result<std::vector<VersionInfo>> SqliteLabels::versions(int64_t task) {
  return guarded([&] {
    std::vector<VersionInfo> versions;
    sql::Statement& row = prepared(
        "SELECT id, content, parent, created, metrics FROM versions WHERE task = ?"
        " ORDER BY created DESC, id DESC");
    for (row.bind(task); row.step();) {
      versions.push_back({.id = row.integer(0),
                          .content = digest_from(row.bytes(1)),
                          .created = row.integer(3),
                          .metrics = row.bytes(4)});
      if (!row.is_null(2)) versions.back().parent = row.integer(2);
    }
    return versions;
  });
}

Result<std::vector<int64_t>> SqliteLabels::add_photos(int64_t collection,
                                                      std::span<const PhotoPlace> places) {
  for (const PhotoPlace& place : places) {
    if (place.path.size() > static_cast<size_t>(limits::kPathBytes)) {
      return Status(Code::kTooLarge, "labels: a path of " + std::to_string(place.path.size()) +
                                         " bytes, at most " + std::to_string(limits::kPathBytes) +
                                         " are accepted");
    }
  }
  return guarded([&] {
    sql::Transaction transaction(db_);
    sql::Statement& find = prepared("SELECT id FROM photos WHERE sha256 = ?");
    sql::Statement& insert = prepared("INSERT INTO photos (sha256) VALUES (?)");
    sql::Statement& put = prepared(
        "INSERT INTO places (collection, path, photo) VALUES (?, ?, ?)"
        " ON CONFLICT (collection, path) DO UPDATE SET photo = excluded.photo"
        " WHERE photo <> excluded.photo");
    std::vector<int64_t> ids;
    for (const PhotoPlace& place : places) {
      const std::span<const uint8_t> digest(place.digest);
      if (find.bind(digest).step()) {
        ids.push_back(find.integer(0));
      } else {
        insert.bind(digest).run();
        ids.push_back(db_.last_id());
      }
      put.bind(collection, std::string_view(place.path), ids.back()).run();
    }
    transaction.commit();
    return ids;
  });
}

Status SqliteLabels::remove_paths(int64_t collection, std::span<const std::string> paths) {
  return guarded([&] {
           sql::Transaction transaction(db_);
           sql::Statement& row = prepared("DELETE FROM places WHERE collection = ? AND path = ?");
           for (const std::string& path : paths) {
             row.bind(collection, std::string_view(path)).run();
           }
           transaction.commit();
           return true;
         })
      .status();
}

Result<int64_t> SqliteLabels::find_photo(int64_t collection, std::string_view path) {
  return guarded([&] {
    sql::Statement& row = prepared("SELECT photo FROM places WHERE collection = ? AND path = ?");
    if (row.bind(collection, path).step()) return row.integer(0);
    throw sql::SqliteFailure{
        Status(Code::kNotFound, "labels: no photo at " + std::string(path) + " in the collection")};
  });
}

}  // namespace ndtrain
