// Whether a database file is as it was written, all of it: each page by its checksum, the pages by
// what SQLite finds. Others may use it meanwhile; the write-ahead log cannot be made shorter while
// a check goes on.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "framework/core/status.h"

namespace ndtrain::ndp::sql {

enum class DatabaseCheck : uint8_t {
  kPages,  // each page, and whether they fit together: PRAGMA quick_check
  kWhole,  // that indices say what their tables do, too: PRAGMA integrity_check
};

// kCorrupt, with the page or with what SQLite found; kCancelled when `stop` was requested before
// the end; kIo. Any thread.
Status check_database(const std::string& path, DatabaseCheck how, const std::stop_token& stop = {});

}  // namespace ndtrain::ndp::sql
