// The catalogue's table and its statements. All calls throw Failure.
#pragma once

#include <optional>
#include <string>

#include "ndp/photos/catalogue.h"
#include "ndp/sqlite/sqlite.h"

namespace ndtrain::ndp {

struct CatalogueRow {
  int64_t id = 0;
  CatalogueEntry entry;  // state as of the bytes: never missing or deleted
  int64_t missed = 0;    // scans in a row that did not see it
  bool fresh = false;    // added by a scan that has not finished

  PhotoState state() const;
};

class CatalogueRows {
 public:
  explicit CatalogueRows(const std::string& path);

  sql::Database& database() { return db_; }

  std::optional<CatalogueRow> by_path(const std::string& path);
  // Rows with a digest whose photo is the same file, going by size, mtime and inode, under the same
  // name.
  std::optional<CatalogueRow> same_file(const PhotoRef& ref);
  std::vector<CatalogueRow> by_digest(const Digest& digest);
  std::vector<CatalogueRow> after_path(const std::string& path, size_t limit);
  std::vector<CatalogueRow> at_or_below(const std::string& place);  // a path, or a directory's
  std::vector<CatalogueRow> after_id(int64_t id, size_t limit, bool only_fresh);

  int64_t insert(const CatalogueEntry& entry);                       // fresh
  void update(int64_t id, const CatalogueEntry& entry, bool fresh);  // and no scan missed it
  void set_missed(int64_t id, int64_t missed);
  void remove(int64_t id);
  void clear_fresh();
  void clear_fresh(int64_t id);
  void set_scanned();  // a scan of all came to its end
  bool scanned();      // one has
  CatalogueCounts counts();

  // What decoders said of contents.
  void add_bad(const Digest& digest, const std::string& reason);
  std::optional<std::string> bad(const Digest& digest);
  void remove_bad(const Digest& digest);

  // What photos at these paths were before a disk changed them; those that are quarantined still.
  void add_damaged(const std::string& path, const Digest& photo);
  void remove_damaged(const std::string& path);
  std::vector<DamagedPhoto> damaged();

 private:
  std::vector<CatalogueRow> read(sql::Statement& s);
  std::optional<CatalogueRow> read_one(sql::Statement& s);

  sql::Database db_;
  bool ready_;  // made before the statements are prepared
  sql::Statement by_path_, same_file_, by_digest_, after_path_, after_id_, fresh_after_id_;
  sql::Statement below_, clear_fresh_, insert_, update_, set_missed_, remove_, add_bad_,
      quarantine_, bad_, remove_bad_, add_damaged_, remove_damaged_, damaged_;
};

}  // namespace ndtrain::ndp
