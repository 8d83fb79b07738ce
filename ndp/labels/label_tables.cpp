#include "ndp/labels/label_tables.h"

#include "ndp/labels/label_row.h"

namespace ndtrain::ndp {

std::vector<VersionInfo> LabelTables::versions_of(int64_t task) {
  std::vector<VersionInfo> versions;
  rows(
      [&](const SqlRow& r) {
        VersionInfo& v = versions.emplace_back();
        v.id = r.integer(0);
        v.content = digest_from(r.bytes(1));
        if (!r.is_null(2)) v.parent = r.integer(2);
        v.created = r.integer(3);
        v.metrics = r.bytes(4);
        if (!r.is_null(5)) v.withdrawn = r.integer(5);
        if (!r.is_null(6)) v.number = r.integer(6);
      },
      "SELECT id, content, parent, created, metrics, withdrawn, number FROM versions WHERE task = ?"
      " ORDER BY created DESC, id DESC",
      task);
  return versions;
}

int64_t LabelTables::task_of(int64_t version) {
  const auto task = integer("SELECT task FROM versions WHERE id = ?", version);
  if (task) return *task;
  throw sql::Failure{
      Status(Code::kNotFound, "labels: there is no version " + std::to_string(version))};
}

VersionOrder LabelTables::version_order(int64_t task) {
  return {versions_of(task), integer("SELECT in_force FROM tasks WHERE id = ?", task)};
}

std::vector<int64_t> LabelTables::labelled_between(int64_t task, int64_t version, int64_t above,
                                                   int64_t to) {
  std::vector<int64_t> photos;
  rows([&](const SqlRow& r) { photos.push_back(r.integer(0)); },
       "SELECT l.photo FROM labels l WHERE l.photo > ? AND l.photo <= ? AND l.task = ?"
       " AND l.version = ? ORDER BY l.photo LIMIT ?",
       above, to, task, version, kPage);
  return photos;
}

// In the order of the photos, which leaves nothing to sort.
std::string LabelTables::collected_photos() const {
  return " FROM (SELECT DISTINCT photo FROM places p" + by_index("places_photo") +
         " WHERE p.collection = ?) p";
}

bool LabelTables::has_all_photos(int64_t collection) {
  return integer("SELECT count(*)" + collected_photos(), collection) ==
         integer("SELECT count(*) FROM photos");
}

}  // namespace ndtrain::ndp
