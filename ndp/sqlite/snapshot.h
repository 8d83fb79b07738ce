// A database file as it is at one moment, while whoever has it goes on writing: SQLite's read
// transaction holds the moment, its backup API copies it. https://www.sqlite.org/backup.html
#pragma once

#include <memory>
#include <string>

#include "framework/core/status.h"

namespace ndtrain::ndp::sql {

class Database;

// One thread. While it is there, the database's write-ahead log cannot be made shorter.
class Snapshot {
 public:
  // Of the moment in which this returns. kIo, kCorrupt.
  static Result<Snapshot> of(const std::string& path);
  Snapshot(Snapshot&&) noexcept;
  ~Snapshot();

  // Into a file that is absent or empty; one file, without a log. Not durable on return: kNoSpace,
  // kIo, kCorrupt.
  Status copy_to(const std::string& path);

 private:
  explicit Snapshot(std::unique_ptr<Database> db);

  std::unique_ptr<Database> db_;
};

}  // namespace ndtrain::ndp::sql
