#include "ndp/labels/label_db.h"

#include <algorithm>

#include "framework/core/fs.h"
#include "framework/core/text.h"
#include "ndp/labels/postgres_labels.h"
#include "ndp/labels/sqlite_labels.h"

namespace ndtrain::ndp {
namespace {

constexpr std::string_view kSourceNames[] = {"model", "folder", "import", "human"};

Status require_name(const std::string& kind, const std::string& name,
                    const Result<std::vector<std::string>>& names) {
  if (!names.ok()) return names.status();
  if (std::ranges::find(*names, name) != names->end()) return {};
  std::string there;
  for (const std::string& n : *names) there += (there.empty() ? "" : ", ") + n;
  return {Code::kNotFound, "the label database has no " + kind + " '" + name + "'; " +
                               (there.empty() ? "there are none" : "there are: " + there)};
}

}  // namespace

std::string_view name_of(LabelSource source) {
  const auto i = static_cast<size_t>(source) - 1;
  if (i >= std::size(kSourceNames)) throw Error("label source ", i + 1, " does not exist");
  return kSourceNames[i];
}

std::optional<LabelSource> label_source_named(std::string_view name) {
  for (size_t i = 0; i < std::size(kSourceNames); ++i) {
    if (kSourceNames[i] == name) return static_cast<LabelSource>(i + 1);
  }
  return {};
}

Result<std::unique_ptr<LabelDb>> open_label_db(std::string_view url, OpenLabelDb mode) {
  constexpr std::string_view kSqlite = "sqlite:";
  if (url.starts_with(kSqlite) && url.size() > kSqlite.size()) {
    const std::string path(url.substr(kSqlite.size()));
    if (mode == OpenLabelDb::kExisting && !real_fs().exists(path)) {
      return Status(Code::kNotFound,
                    "there is no label database " + path + "; ndtrain relabel makes one");
    }
    return SqliteLabels::open(path);
  }
  if (url.starts_with("postgresql://") || url.starts_with("postgres://")) {
    return PostgresLabels::open(std::string(url), mode);
  }
  return Status(Code::kUnsupported,
                "label database '" + std::string(url) +
                    "': give it as sqlite:FILE or postgresql://USER@HOST/DATABASE");
}

Result<int64_t> existing_collection(LabelDb& db, const std::string& name) {
  if (Status s = require_name("collection", name, db.collections()); !s.ok()) return s;
  return db.collection(name);
}

Result<int64_t> existing_task(LabelDb& db, const std::string& name) {
  if (Status s = require_name("task", name, db.tasks()); !s.ok()) return s;
  return db.task(name);
}

Result<int64_t> existing_store(LabelDb& db, const std::string& name) {
  if (Status s = require_name("store", name, db.stores()); !s.ok()) return s;
  return db.store(name);
}

Result<int64_t> existing_class(LabelDb& db, int64_t task, const std::string& name) {
  const Result<std::vector<ClassInfo>> classes = db.classes(task);
  if (!classes.ok()) return classes.status();
  for (const ClassInfo& c : *classes) {
    if (c.name == name) return c.id;
  }
  return Status(Code::kNotFound, "no class of this task is called '" + name + "'");
}

Result<VersionInfo> existing_version(LabelDb& db, int64_t task, const std::string& name) {
  const Result<std::vector<VersionInfo>> versions = db.versions(task);
  if (!versions.ok()) return versions.status();
  if (name == "in-force") {
    const Result<std::optional<int64_t>> id = db.in_force(task);
    if (!id.ok()) return id.status();
    const auto it = std::ranges::find(*versions, *id, [](auto& v) { return std::optional(v.id); });
    if (it != versions->end()) return *it;
    return Status(Code::kNotFound, "no version of this task is in force");
  }
  std::vector<VersionInfo> by_number, by_content;
  std::string there;
  for (const VersionInfo& v : *versions) {
    if (v.number && std::to_string(*v.number) == name) by_number.push_back(v);
    if (name.size() >= 4 && to_hex(v.content).starts_with(name)) by_content.push_back(v);
    there += (there.empty() ? "" : ", ") + full_version_name(v.number, v.content);
  }
  const std::vector<VersionInfo>& found = by_number.empty() ? by_content : by_number;
  if (found.size() == 1) return found[0];
  return Status(Code::kNotFound,
                found.empty() ? "no version of this task is '" + name +
                                    (there.empty() ? "'; there are none" : "'; there are ") + there
                              : "more than one version of this task is '" + name +
                                    "', so name it by its content; there are " + there);
}

Status check_class_name(std::string_view name) {
  constexpr size_t kMost = 256;
  if (!name.empty() && name.size() <= kMost && is_plain(name)) return {};
  return {Code::kUnsupported,
          "a label has 1 to " + std::to_string(kMost) + " bytes, and no control characters"};
}

Status set_label(LabelDb& db, int64_t collection, int64_t task, std::string_view path,
                 const std::string& class_name, int64_t time) {
  Result<int64_t> photo = db.find_photo(collection, path);
  if (!photo.ok()) return photo.status();
  Result<std::vector<int64_t>> ids = db.class_ids(task, {&class_name, 1});
  if (!ids.ok()) return ids.status();
  return db
      .put_labels(
          {.task = task,
           .source = LabelSource::kHuman,
           .labels = {{.photo = *photo, .class_id = ids->front(), .time = time, .just_now = true}}})
      .status();
}

}  // namespace ndtrain::ndp
