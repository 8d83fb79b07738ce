#include "ndp/labels/parquet_writer.h"

#include <zstd.h>

#include <array>
#include <bit>
#include <utility>

#include "framework/core/coding.h"
#include "framework/core/error.h"
#include "framework/core/text.h"
#include "ndp/labels/thrift_compact.h"

namespace ndtrain::ndp {

// As parquet.thrift numbers them.
namespace parquet {

constexpr std::string_view kMagic = "PAR1";
constexpr int64_t kMicroseconds = 1'000'000;

enum PhysicalType : int32_t { kBoolean = 0, kInt64 = 2, kDouble = 5, kByteArray = 6 };
enum ConvertedType : int32_t { kUtf8 = 0, kTimestampMicros = 10 };
enum Repetition : int32_t { kRequired = 0, kOptional = 1 };
enum Encoding : int32_t { kPlain = 0, kRle = 3 };
enum Codec : int32_t { kZstd = 6 };
enum PageType : int32_t { kDataPage = 0 };

}  // namespace parquet

namespace {

parquet::PhysicalType physical_type(ParquetWriter::Type type) {
  switch (type) {
    case ParquetWriter::Type::kText:
      return parquet::kByteArray;
    case ParquetWriter::Type::kReal:
      return parquet::kDouble;
    case ParquetWriter::Type::kBoolean:
      return parquet::kBoolean;
    default:
      return parquet::kInt64;
  }
}

template <typename T>
void append_number(std::string& to, T value) {
  std::array<std::byte, sizeof(T)> bytes{};
  store_le(bytes.data(), value);
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Levels 0 and 1 as runs of RLE, behind their length.
std::string presence_levels(const std::vector<bool>& present) {
  std::string runs;
  for (size_t i = 0; i < present.size();) {
    size_t end = i + 1;
    while (end < present.size() && present[end] == present[i]) ++end;
    put_varint(runs, (end - i) << 1);
    runs += static_cast<char>(present[i]);
    i = end;
  }
  std::string text;
  append_number(text, static_cast<uint32_t>(runs.size()));
  return text + runs;
}

std::string by_zstd(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const size_t n = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3);
  if (ZSTD_isError(n) != 0) throw Error("zstd: ", ZSTD_getErrorName(n));
  out.resize(n);
  return out;
}

}  // namespace

ParquetWriter::ParquetWriter(std::vector<Column> columns, Write write, size_t row_group)
    : columns_(std::move(columns)),
      write_(std::move(write)),
      row_group_(row_group),
      cells_(columns_.size()) {}

ParquetWriter::Cells& ParquetWriter::cell(Type type) {
  if (next_ == columns_.size() || columns_[next_].type != type) {
    throw Error("ParquetWriter: cell ", next_, " of a row is of another type, or is one too many");
  }
  Cells& c = cells_[next_];
  if (columns_[next_].optional) c.present.push_back(true);
  ++next_;
  return c;
}

void ParquetWriter::text(std::string_view value) {
  Cells& c = cell(Type::kText);
  if (!is_utf8(value))
    bad_ = columns_[next_ - 1].name + ": '" + printable(value, 256) + "' is not UTF-8";
  append_number(c.values, static_cast<uint32_t>(value.size()));
  c.values += value;
}

void ParquetWriter::integer(int64_t value) { append_number(cell(Type::kInteger).values, value); }

void ParquetWriter::real(double value) {
  append_number(cell(Type::kReal).values, std::bit_cast<uint64_t>(value));
}

void ParquetWriter::boolean(bool value) {
  Cells& c = cell(Type::kBoolean);
  if (c.count % 8 == 0) c.values += '\0';
  c.values.back() = static_cast<char>(c.values.back() | (value ? 1 << (c.count % 8) : 0));
  ++c.count;
}

void ParquetWriter::time(int64_t unix_seconds) {
  Cells& c = cell(Type::kTime);
  int64_t microseconds = 0;
  if (__builtin_mul_overflow(unix_seconds, parquet::kMicroseconds, &microseconds)) {
    bad_ = columns_[next_ - 1].name + ": " + std::to_string(unix_seconds) +
           " seconds are too many for microseconds";
  }
  append_number(c.values, microseconds);
}

void ParquetWriter::none() {
  if (next_ == columns_.size() || !columns_[next_].optional) {
    throw Error("ParquetWriter: cell ", next_, " of a row must be there");
  }
  cells_[next_++].present.push_back(false);
}

Status ParquetWriter::put(std::string_view bytes) {
  offset_ += static_cast<int64_t>(bytes.size());
  return write_(bytes);
}

Status ParquetWriter::end_row() {
  if (next_ != columns_.size()) throw Error("ParquetWriter: a row ends at cell ", next_);
  next_ = 0;
  if (!bad_.empty()) return {Code::kCorrupt, bad_ + ", which Parquet cannot say"};
  ++rows_;
  ++group_rows_;
  size_t bytes = 0;
  for (const Cells& c : cells_) bytes += c.values.size();
  return bytes < row_group_ ? Status() : write_group();
}

// A data page, of version 1, with its header.
std::string ParquetWriter::page_of(const Column& column, const Cells& cells, int64_t& plain) const {
  const std::string bytes = (column.optional ? presence_levels(cells.present) : "") + cells.values;
  const std::string packed = by_zstd(bytes);
  ThriftWriter header;
  header.begin_struct();
  header.i32(1, parquet::kDataPage);
  header.i32(2, static_cast<int32_t>(bytes.size()));
  header.i32(3, static_cast<int32_t>(packed.size()));
  header.begin_struct(5);
  header.i32(1, static_cast<int32_t>(group_rows_));
  header.i32(2, parquet::kPlain);
  header.i32(3, parquet::kRle);  // of whether a value is there
  header.i32(4, parquet::kRle);  // of repetition, which there is none
  header.end_struct();
  header.end_struct();
  plain = static_cast<int64_t>(header.bytes().size() + bytes.size());
  return header.bytes() + packed;
}

Status ParquetWriter::write_group() {
  if (offset_ == 0) {
    if (Status s = put(parquet::kMagic); !s.ok()) return s;
  }
  if (group_rows_ == 0) return {};
  RowGroup& group = groups_.emplace_back(RowGroup{.rows = group_rows_});
  for (size_t i = 0; i < columns_.size(); ++i) {
    Chunk chunk{.offset = offset_};
    const std::string page = page_of(columns_[i], cells_[i], chunk.plain);
    chunk.bytes = static_cast<int64_t>(page.size());
    if (Status s = put(page); !s.ok()) return s;
    group.chunks.push_back(chunk);
    cells_[i] = {};
  }
  group_rows_ = 0;
  return {};
}

namespace {

void write_parquet_schema(ThriftWriter& to, const std::vector<ParquetWriter::Column>& columns) {
  to.begin_list(2, ThriftWriter::kStruct, columns.size() + 1);
  to.begin_struct();
  to.binary(4, "schema");
  to.i32(5, static_cast<int32_t>(columns.size()));
  to.end_struct();
  for (const ParquetWriter::Column& c : columns) {
    to.begin_struct();
    to.i32(1, physical_type(c.type));
    to.i32(3, c.optional ? parquet::kOptional : parquet::kRequired);
    to.binary(4, c.name);
    if (c.type == ParquetWriter::Type::kText) to.i32(6, parquet::kUtf8);
    if (c.type == ParquetWriter::Type::kTime) to.i32(6, parquet::kTimestampMicros);
    to.end_struct();
  }
}

}  // namespace

void ParquetWriter::describe(ThriftWriter& to, const Column& column, const Chunk& chunk,
                             int64_t rows) {
  to.begin_struct();  // ColumnChunk
  to.i64(2, chunk.offset);
  to.begin_struct(3);  // ColumnMetaData
  to.i32(1, physical_type(column.type));
  to.begin_list(2, ThriftWriter::kI32, 2);
  to.i32(parquet::kPlain);
  to.i32(parquet::kRle);
  to.begin_list(3, ThriftWriter::kBinary, 1);
  to.binary(column.name);
  to.i32(4, parquet::kZstd);
  to.i64(5, rows);
  to.i64(6, chunk.plain);
  to.i64(7, chunk.bytes);
  to.i64(9, chunk.offset);
  to.end_struct();
  to.end_struct();
}

std::string ParquetWriter::metadata() const {
  ThriftWriter m;
  m.begin_struct();
  m.i32(1, 1);  // of the format
  write_parquet_schema(m, columns_);
  m.i64(3, rows_);
  m.begin_list(4, ThriftWriter::kStruct, groups_.size());
  for (const RowGroup& g : groups_) {
    m.begin_struct();
    m.begin_list(1, ThriftWriter::kStruct, columns_.size());
    int64_t plain = 0;
    for (size_t i = 0; i < columns_.size(); ++i) {
      plain += g.chunks[i].plain;
      describe(m, columns_[i], g.chunks[i], g.rows);
    }
    m.i64(2, plain);
    m.i64(3, g.rows);
    m.end_struct();
  }
  m.binary(6, "ndtrain");
  m.end_struct();
  return m.bytes();
}

Status ParquetWriter::finish() {
  if (next_ != 0) throw Error("ParquetWriter: the last row ends at cell ", next_);
  if (Status s = write_group(); !s.ok()) return s;
  std::string end = metadata();
  append_number(end, static_cast<uint32_t>(end.size()));
  return put(end += parquet::kMagic);
}

}  // namespace ndtrain::ndp
