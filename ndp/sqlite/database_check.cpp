#include "ndp/sqlite/database_check.h"

#include "ndp/sqlite/interruption.h"
#include "ndp/sqlite/sqlite.h"

namespace ndtrain::ndp::sql {

Status check_database(const std::string& path, DatabaseCheck how, const std::stop_token& stop) {
  try {
    Database db(path);
    const Interruption interruption(db, stop);
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
