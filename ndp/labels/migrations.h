// How a label database gets from the schema of any earlier program to ours.
#pragma once

#include <span>
#include <string_view>

#include "ndp/sqlite/sqlite.h"

namespace ndtrain::ndp {

// Statement lists: number i leads from schema version i to i + 1, and is never changed once
// released.
std::span<const std::string_view> label_migrations();

// Applies what is lacking, all in one transaction. Throws Failure; kUnsupported: the file has
// a later version than `migrations`, or is not a label database.
void migrate(sql::Database& db, std::span<const std::string_view> migrations);

}  // namespace ndtrain::ndp
