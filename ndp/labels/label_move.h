// The rows of a label database in SQLite, written into one in PostgreSQL as they are, ids and
// history included, and compared: docs/decisions/108-a-directory-moves-in-one-transaction.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "framework/core/hash.h"
#include "ndp/postgres/postgres.h"
#include "ndp/sqlite/sqlite.h"

namespace ndtrain::ndp {

struct LabelTable {
  std::string name;
  int64_t rows = 0;
  Digest digest{};  // SHA-256 of the rows in the order of their key
  bool operator==(const LabelTable&) const = default;
};

// What the file has. Throws sql::Failure; kUnsupported: it is of another program's format.
std::vector<LabelTable> label_tables_of(sql::Database& from);

// Whether anything is said in the database at all; false also where it has no tables of ours.
// Throws sql::Failure.
bool has_labels(postgres::Connection& db);

// In the transaction that `to` is in, whose tables are there and empty. `on_table` is called before
// each. Throws sql::Failure; kCorrupt: what `to` says afterwards is not what was written.
std::vector<LabelTable> copy_labels(sql::Database& from, postgres::Connection& to,
                                    const std::function<void(const std::string&)>& on_table);

}  // namespace ndtrain::ndp
