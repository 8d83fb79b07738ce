// Labels as CSV (path,label,score,source,version,content,time,store,at_random; version is what
// people call it, content its SHA-256, time in Unix seconds), as lines of JSON with the same names,
// as one JSON array of these, or as a table of Parquet with these columns, whose times are times.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ndp/labels/label_db.h"

namespace ndtrain::ndp {

struct LabelImport {
  int64_t rows = 0;
  int64_t added = 0;       // the rest was there already
  int64_t model_rows = 0;  // left out: a model's own labels must not come back as truth
  int64_t unknown_photos = 0;
  std::vector<std::string> unknown;  // the first ten of their paths
};

enum class LabelFormat { kCsv, kJsonLines, kJson, kParquet };

// In CSV a header line names the columns in any order (path or file, label or class; score, source,
// time and at_random are optional, others are ignored); without one the columns are path,label.
// Either all rows get in or none; kCorrupt names the line. Rows without a time are said just `now`.
// `source` is what they count as. No Parquet.
Result<LabelImport> import_labels(LabelDb& db, int64_t collection, int64_t task,
                                  std::string_view text, int64_t now,
                                  LabelSource source = LabelSource::kImport,
                                  LabelFormat format = LabelFormat::kCsv);

// Everything the query finds, whatever its limit; returns the number of rows. kCorrupt: JSON and
// Parquet cannot say a path or name that is not UTF-8.
Result<int64_t> export_labels(LabelDb& db, LabelQuery query,
                              const std::function<Status(std::string_view)>& write,
                              LabelFormat format = LabelFormat::kCsv);

}  // namespace ndtrain::ndp
