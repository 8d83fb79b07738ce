// Photos in the trash: their labels stay, their places wait in a table of their own.
#include "ndp/labels/sql_labels.h"

namespace ndtrain::ndp {

Status SqlLabels::put_in_trash(std::span<const Digest> photos) {
  return tables_
      ->writing([&] {
        for (const Digest& photo : photos) {
          tables_->run("INSERT INTO trash (sha256) VALUES (?) ON CONFLICT (sha256) DO NOTHING",
                       photo);
        }
        tables_->hide_places();
        return true;
      })
      .status();
}

// A path that other photos have by now stays with them.
Status SqlLabels::restore_from_trash(std::span<const Digest> photos) {
  return tables_
      ->writing([&] {
        std::vector<int64_t> there;
        for (const Digest& photo : photos) {
          tables_->run("DELETE FROM trash WHERE sha256 = ?", photo);
          const auto id = tables_->integer("SELECT id FROM photos WHERE sha256 = ?", photo);
          if (id) there.push_back(*id);
        }
        tables_->placing_counted(there, [&] {
          for (const int64_t id : there) {
            tables_->run(
                "INSERT INTO places (collection, path, photo) SELECT collection, path, photo"
                " FROM trash_places WHERE photo = ? ON CONFLICT (collection, path) DO NOTHING",
                id);
            tables_->run("DELETE FROM trash_places WHERE photo = ?", id);
          }
        });
        return true;
      })
      .status();
}

void LabelTables::hide_places() {
  if (!integer("SELECT 1 FROM trash LIMIT 1")) return;
  const std::string hidden =
      " FROM trash t CROSS JOIN photos ph CROSS JOIN places p"
      " WHERE ph.sha256 = t.sha256 AND p.photo = ph.id";
  std::vector<int64_t> photos;
  rows([&](const SqlRow& r) { photos.push_back(r.integer(0)); },
       "SELECT DISTINCT p.photo" + hidden);
  if (photos.empty()) return;
  placing_counted(std::move(photos), [&] {
    run("INSERT INTO trash_places (photo, collection, path) SELECT p.photo, p.collection, p.path" +
        hidden + " ON CONFLICT (photo, collection, path) DO NOTHING");
    run("DELETE FROM places WHERE photo IN (SELECT p.photo" + hidden + ")");
  });
}

bool LabelTables::is_hidden(int64_t photo) {
  return integer("SELECT 1 FROM photos ph JOIN trash t ON t.sha256 = ph.sha256 WHERE ph.id = ?",
                 photo)
      .has_value();
}

}  // namespace ndtrain::ndp
