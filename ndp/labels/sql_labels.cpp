// Names, classes, versions and photos. Labels are put in sql_put.cpp, asked for in sql_query.cpp.
#include "ndp/labels/sql_labels.h"

#include <algorithm>

#include "framework/core/limits.h"
#include "ndp/labels/label_row.h"

namespace ndtrain::ndp {

// Most names are known, and to look one up waits for no writer.
Result<int64_t> SqlLabels::named(const char* table, std::string_view name) {
  const std::string find = std::string("SELECT id FROM ") + table + " WHERE name = ?";
  const auto known = tables_->reading([&] { return tables_->integer(find, name); });
  if (!known.ok()) return known.status();
  if (*known) return **known;
  return tables_->writing([&] {
    if (const auto id = tables_->integer(find, name)) return *id;
    tables_->run(std::string("INSERT INTO ") + table + " (name) VALUES (?)", name);
    return *tables_->integer(find, name);
  });
}

Result<int64_t> SqlLabels::collection(std::string_view name) { return named("collections", name); }
Result<int64_t> SqlLabels::task(std::string_view name) { return named("tasks", name); }
Result<int64_t> SqlLabels::store(std::string_view name) { return named("stores", name); }

Result<std::vector<std::string>> SqlLabels::names(const char* table) {
  return tables_->reading([&] {
    std::vector<std::string> found;
    tables_->rows([&](const SqlRow& r) { found.push_back(r.bytes(0)); },
                  std::string("SELECT name FROM ") + table + " ORDER BY name");
    return found;
  });
}

Result<std::vector<std::string>> SqlLabels::collections() { return names("collections"); }
Result<std::vector<std::string>> SqlLabels::tasks() { return names("tasks"); }
Result<std::vector<std::string>> SqlLabels::stores() { return names("stores"); }

Result<TaskSize> SqlLabels::task_size(std::string_view name) {
  return tables_->reading([&] {
    TaskSize size;
    const auto task = tables_->integer("SELECT id FROM tasks WHERE name = ?", name);
    if (!task) return size;
    const auto counted = [&](const std::string& rows) {
      return tables_->integer("SELECT count(*) FROM " + rows, *task).value_or(0);
    };
    size.labels = counted("labels WHERE task = ?");
    size.by_people = counted("labels WHERE task = ? AND source = " +
                             std::to_string(static_cast<int>(LabelSource::kHuman)));
    size.classes = counted("classes WHERE task = ?");
    return size;
  });
}

Status SqlLabels::remove_task(std::string_view name) {
  return tables_
      ->writing([&] {
        const auto task = tables_->integer("SELECT id FROM tasks WHERE name = ?", name);
        if (!task) return true;
        tables_->run("DELETE FROM label_issues WHERE task = ?", *task);
        tables_->run("DELETE FROM labels WHERE task = ?", *task);
        tables_->run(
            "DELETE FROM label_counts WHERE collection IN (SELECT id FROM collections)"
            " AND task = ?",
            *task);
        tables_->run("UPDATE tasks SET in_force = NULL WHERE id = ?", *task);
        tables_->run("DELETE FROM versions WHERE task = ?", *task);
        tables_->run("DELETE FROM classes WHERE task = ?", *task);
        tables_->run("DELETE FROM tasks WHERE id = ?", *task);
        return true;
      })
      .status();
}

// As names are.
Result<std::vector<int64_t>> SqlLabels::class_ids(int64_t task,
                                                  std::span<const std::string> names) {
  std::map<std::string, int64_t> known;
  int64_t next = 0;
  const auto read = [&] {
    known.clear();
    next = 0;
    tables_->rows(
        [&](const SqlRow& r) {
          known.emplace(r.bytes(1), r.integer(0));
          next = r.integer(0) + 1;
        },
        "SELECT id, name FROM classes WHERE task = ? ORDER BY id", task);
    return std::ranges::all_of(names, [&](const std::string& n) { return known.contains(n); });
  };
  const Result<bool> all_known = tables_->reading(read);
  if (!all_known.ok()) return all_known.status();
  if (*all_known) {
    std::vector<int64_t> ids;
    for (const std::string& name : names) ids.push_back(known.at(name));
    return ids;
  }
  return tables_->writing([&] {
    read();
    std::vector<int64_t> ids;
    for (const std::string& name : names) {
      const auto [it, is_new] = known.emplace(name, next);
      if (is_new)
        tables_->run("INSERT INTO classes (task, id, name) VALUES (?, ?, ?)", task, next++, name);
      ids.push_back(it->second);
    }
    return ids;
  });
}

Result<std::vector<ClassInfo>> SqlLabels::classes(int64_t task) {
  return tables_->reading([&] {
    std::vector<ClassInfo> classes;
    tables_->rows(
        [&](const SqlRow& r) {
          classes.push_back({r.integer(0), r.bytes(1)});
        },
        "SELECT id, name FROM classes WHERE task = ? ORDER BY id", task);
    return classes;
  });
}

Result<int64_t> SqlLabels::version(int64_t task, const NewVersion& version) {
  return tables_->writing([&] {
    const std::string find = "SELECT id FROM versions WHERE task = ? AND content = ?";
    if (const auto id = tables_->integer(find, task, version.content)) {
      if (version.number) {
        tables_->run(
            "UPDATE versions SET number = ? WHERE id = ? AND (number IS NULL OR number < ?)",
            version.number, *id, version.number);
      }
      return *id;
    }
    const auto parent =
        version.parent ? tables_->integer(find, task, *version.parent) : std::nullopt;
    tables_->run(
        "INSERT INTO versions (task, content, parent, created, metrics, number)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        task, version.content, parent, version.created, version.metrics, version.number);
    return *tables_->integer(find, task, version.content);
  });
}

Result<std::vector<VersionInfo>> SqlLabels::versions(int64_t task) {
  return tables_->reading([&] { return tables_->versions_of(task); });
}

Result<std::vector<int64_t>> SqlLabels::add_photos(int64_t collection,
                                                   std::span<const PhotoPlace> places) {
  for (const PhotoPlace& place : places) {
    if (place.path.size() > static_cast<size_t>(limits::kPathBytes)) {
      return Status(Code::kTooLarge, "labels: a path of " + std::to_string(place.path.size()) +
                                         " bytes, at most " + std::to_string(limits::kPathBytes) +
                                         " are accepted");
    }
  }
  return tables_->writing([&] {
    const LabelTables::Placing placing = tables_->place_photos(collection, places);
    tables_->placing_counted(placing.moved,
                             [&] { tables_->put_places(collection, places, placing); });
    tables_->hide_places();
    return placing.photos;
  });
}

Status SqlLabels::remove_paths(int64_t collection, std::span<const std::string> paths) {
  return tables_
      ->writing([&] {
        std::vector<int64_t> photos;
        for (const std::string& path : paths) {
          const auto photo = tables_->integer(
              "SELECT photo FROM places WHERE collection = ? AND path = ?", collection, path);
          if (photo) photos.push_back(*photo);
        }
        tables_->placing_counted(std::move(photos), [&] {
          for (const std::string& path : paths) {
            for (const std::string table : {"places", "trash_places"}) {
              tables_->run("DELETE FROM " + table + " WHERE collection = ? AND path = ?",
                           collection, path);
            }
          }
        });
        return true;
      })
      .status();
}

Result<int64_t> SqlLabels::find_photo(int64_t collection, std::string_view path) {
  return tables_->reading([&] {
    const auto photo = tables_->integer(
        "SELECT photo FROM places WHERE collection = ? AND path = ?", collection, path);
    if (photo) return *photo;
    throw sql::Failure{
        Status(Code::kNotFound, "labels: no photo at " + std::string(path) + " in the collection")};
  });
}

Status SqlLabels::settle() {
  return tables_->outside([&] { tables_->sweep(); });
}

Result<Digest> SqlLabels::digest_of(int64_t photo) {
  return tables_->reading([&] {
    std::string bytes;
    tables_->rows([&](const SqlRow& r) { bytes = r.bytes(0); },
                  "SELECT sha256 FROM photos WHERE id = ?", photo);
    if (tables_->is_hidden(photo)) {
      throw sql::Failure{Status(Code::kNotFound, "labels: photo " + std::to_string(photo) +
                                                     " is in the trash; ndtrain photos restore "
                                                     "brings it back")};
    }
    Digest digest{};
    if (bytes.size() != digest.size()) {
      throw sql::Failure{Status(Code::kNotFound, "labels: no photo " + std::to_string(photo))};
    }
    std::ranges::copy(bytes, digest.begin());
    return digest;
  });
}

Result<std::vector<int64_t>> SqlLabels::photos_with(std::span<const Digest> digests) {
  return tables_->reading([&] {
    std::vector<int64_t> ids;
    for (const Digest& digest : digests) {
      ids.push_back(tables_->integer("SELECT id FROM photos WHERE sha256 = ?", digest).value_or(0));
    }
    return ids;
  });
}

Result<std::vector<std::vector<CollectedPath>>> SqlLabels::places_of(
    std::span<const Digest> digests) {
  const auto places_in = [](const std::string& table) {
    return "SELECT c.name, p.path FROM " + table +
           " p JOIN photos ph ON ph.id = p.photo JOIN collections c ON c.id = p.collection"
           " WHERE ph.sha256 = ?";
  };
  const std::string query = places_in("places") + " UNION ALL " + places_in("trash_places");
  return tables_->reading([&] {
    std::vector<std::vector<CollectedPath>> all;
    for (const Digest& digest : digests) {
      std::vector<CollectedPath>& places = all.emplace_back();
      tables_->rows(
          [&](const SqlRow& r) {
            places.push_back({r.bytes(0), r.bytes(1)});
          },
          query, digest, digest);
    }
    return all;
  });
}

Result<int64_t> SqlLabels::remove_photos(std::span<const int64_t> photos) {
  bool scrubbed = false;
  Result<int64_t> removed = tables_->writing([&] {
    int64_t n = 0;
    tables_->placing_counted({photos.begin(), photos.end()}, [&] {
      for (const int64_t photo : photos) {
        if (!tables_->integer("SELECT 1 FROM photos WHERE id = ?", photo)) continue;
        ++n;
        tables_->run("DELETE FROM trash WHERE sha256 = (SELECT sha256 FROM photos WHERE id = ?)",
                     photo);
        tables_->run("DELETE FROM label_issues WHERE photo = ?", photo);
        tables_->run("DELETE FROM labels WHERE photo = ?", photo);
        tables_->run("DELETE FROM trash_places WHERE photo = ?", photo);
        tables_->run("DELETE FROM places WHERE photo = ?", photo);
        tables_->run("DELETE FROM photos WHERE id = ?", photo);
      }
    });
    if (n > 0) scrubbed_.reset();
    scrubbed = scrubbed_ && scrubbed_ == tables_->written_by_others();
    return n;
  });
  if (!removed.ok() || photos.empty() || scrubbed) return removed;
  const Status s = tables_->outside([&] {
    const std::optional<int64_t> others = tables_->written_by_others();
    tables_->scrub();
    scrubbed_ = others;
  });
  if (s.ok()) return removed;
  return Status(s.code(),
                "the photos are deleted, but their bytes may still be in the database's files: " +
                    s.message() + "; delete them once more");
}

}  // namespace ndtrain::ndp
