// The label database in SQL: its calls as statements on the tables (label_tables.h). Thread-safe.
#pragma once

#include <memory>

#include "ndp/labels/label_db.h"
#include "ndp/labels/label_tables.h"

namespace ndtrain::ndp {

private:
Result<int64_t> named(const char* table, std::string_view name);
Result<std::vector<std::string>> names(const char* table);

const std::unique_ptr<LabelTables> tables_;
};

}  // namespace ndtrain::ndp
