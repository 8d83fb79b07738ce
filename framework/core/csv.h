// Comma-separated values, RFC 4180; lines may end in LF or CRLF.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ndtrain {

// One line, quoted where it must be, ending in "\n".
std::string csv_row(const std::vector<std::string>& fields);

// Reads a text record by record.
class CsvReader {
 public:
  explicit CsvReader(std::string_view text);  // a byte order mark is skipped; the text is borrowed

  // The next record; nullopt at the end, and when a quote is left open (see broken()).
  std::optional<std::vector<std::string>> next();
  // Where the record of the last next() begins, also that of an open quote; from 1.
  int64_t line() const { return record_line_; }
  bool broken() const { return broken_; }

 private:
  std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 1, record_line_ = 1;
  bool broken_ = false;
};

}  // namespace ndtrain
