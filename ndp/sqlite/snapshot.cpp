#include "ndp/sqlite/snapshot.h"

#include <sqlite3.h>

#include "ndp/sqlite/page_checksums.h"
#include "ndp/sqlite/sqlite.h"

namespace ndtrain::ndp::sql {

Snapshot::Snapshot(std::unique_ptr<Database> db) : db_(std::move(db)) {}
Snapshot::Snapshot(Snapshot&&) noexcept = default;
Snapshot::~Snapshot() = default;

Result<Snapshot> Snapshot::of(const std::string& path) {
  try {
    auto db = std::make_unique<Database>(path);
    db->execute("BEGIN");
    (void)db->integer("SELECT count(*) FROM sqlite_schema");  // BEGIN alone reads nothing yet
    return Snapshot(std::move(db));
  } catch (const Failure& failure) {
    return failure.status;
  }
}

Status Snapshot::copy_to(const std::string& path) {
  try {
    Database to(path);
    if (db_->has_checksums()) expect_page_checksums(to.handle());
    to.execute("PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY");
    sqlite3_backup* const backup = sqlite3_backup_init(to.handle(), "main", db_->handle(), "main");
    if (backup != nullptr) sqlite3_backup_step(backup, -1);  // what goes wrong, finish() returns
    const int result = sqlite3_backup_finish(backup);
    if (backup != nullptr && result == SQLITE_OK) return {};
    if (result == SQLITE_IOERR_DATA) return {Code::kCorrupt, take_page_fault()};
    const Code code = (result & 0xff) == SQLITE_FULL      ? Code::kNoSpace
                      : (result & 0xff) == SQLITE_CORRUPT ? Code::kCorrupt
                                                          : Code::kIo;
    return {code, path + ": " + sqlite3_errmsg(to.handle())};
  } catch (const Failure& failure) {
    return failure.status;
  }
}

}  // namespace ndtrain::ndp::sql
