// What a file says photos show: CSV with the columns file,class, and whatever ndtrain labels export
// writes (CSV, .jsonl with a line of JSON for each label, .json with an array of them).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"

namespace ndtrain::ndp {

struct LabelFileRow {
  int64_t line = 0;  // of the file; of a .json file which of its labels, from 1
  std::string file, name;
};

struct LabelFileRows {
  std::vector<LabelFileRow> rows;
  int64_t by_models = 0;  // left out: what a model said is no truth
};

// A CSV file may begin with a line of column names, in any order: file or path, class or label, and
// source if a model's labels are among them; others are ignored. Without it the columns are
// file,class. Errors name `path` and the line.
Result<LabelFileRows> read_label_rows(const std::string& path, std::string_view text);

}  // namespace ndtrain::ndp
