// A table as a file of Apache Parquet (parquet-format 2.10: github.com/apache/parquet-format), as
// pandas, DuckDB and Spark read it. Debian has no library that writes one, and a flat table needs
// little of the format: row groups of one page a column, PLAIN values, null or not by RLE, pages
// compressed by zstd, the metadata behind them in Thrift's compact protocol.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"

namespace ndtrain::ndp {

class ThriftWriter;

class ParquetWriter {
 public:
  enum class Type { kText, kInteger, kReal, kBoolean, kTime };
  struct Column {
    std::string name;  // UTF-8
    Type type = Type::kText;
    bool optional = false;  // a row may have none
  };
  using Write = std::function<Status(std::string_view)>;

  // A row group is written as soon as it has so many bytes before it is compressed.
  static constexpr size_t kRowGroup = size_t{16} << 20;
  // `write` gets the file's bytes, in order.
  ParquetWriter(std::vector<Column> columns, Write write, size_t row_group = kRowGroup);

  // The next cell of the row that has begun, or of the next one: in the order of the columns, each
  // of its column's type. What has another is a programmer's error, and throws Error.
  void text(std::string_view value);  // UTF-8
  void integer(int64_t value);
  void real(double value);
  void boolean(bool value);
  void time(int64_t unix_seconds);
  void none();

  // After each row's last cell; and after the last row. A Status of `write`, or kCorrupt, as a text
  // is not UTF-8 or a time is beyond those of the format: the file is not to be kept.
  Status end_row();
  Status finish();

  int64_t rows() const { return rows_; }

 private:
  // Of the row group at hand.
  struct Cells {
    std::string values;         // those there are, PLAIN
    std::vector<bool> present;  // of each row, where the column is optional
    int64_t count = 0;          // of booleans, which are eight to a byte
  };
  // Of a column's page, with its header.
  struct Chunk {
    int64_t offset = 0, bytes = 0;
    int64_t plain = 0;  // before it was compressed
  };
  struct RowGroup {
    int64_t rows = 0;
    std::vector<Chunk> chunks;  // of the columns
  };

  Cells& cell(Type type);
  Status put(std::string_view bytes);
  Status write_group();
  std::string page_of(const Column& column, const Cells& cells, int64_t& plain) const;
  static void describe(ThriftWriter& to, const Column& column, const Chunk& chunk, int64_t rows);
  std::string metadata() const;

  const std::vector<Column> columns_;
  const Write write_;
  const size_t row_group_;
  std::vector<Cells> cells_;
  std::vector<RowGroup> groups_;
  size_t next_ = 0;         // column
  int64_t group_rows_ = 0;  // of the one at hand
  int64_t rows_ = 0, offset_ = 0;
  std::string bad_;  // what the row at hand has that the format cannot say
};

}  // namespace ndtrain::ndp
