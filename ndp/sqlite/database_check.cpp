#include "ndp/sqlite/database_check.h"

#include <sqlite3.h>

#include "ndp/sqlite/sqlite.h"

namespace ndtrain::ndp::sql {

Status check_database(const std::string& path, DatabaseCheck how, const std::stop_token& stop) {
  try {
    Database db(path);
    // Between two steps SQLite asks; within the longest one it looks whether it was interrupted.
    sqlite3_progress_handler(
        db.handle(), 1,
        [](void* s) {
          return static_cast<int>(static_cast<std::stop_token*>(s)->stop_requested());
        },
        const_cast<std::stop_token*>(&stop));
    const std::stop_callback interrupt(stop, [&db] { sqlite3_interrupt(db.handle()); });
    Statement check(
        db, how == DatabaseCheck::kPages ? "PRAGMA quick_check(1)" : "PRAGMA integrity_check(1)");
    const std::string found = check.step() ? check.bytes(0) : "";
    if (found == "ok") return {};
    return {Code::kCorrupt, path + ": " + found};
  } catch (const Failure& failure) {
    return failure.status;
  }
}

}  // namespace ndtrain::ndp::sql
