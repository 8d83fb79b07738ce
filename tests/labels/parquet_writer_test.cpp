// Tables as Parquet files, read again by a reader of the format of its own; bench/peers/parquet.py
// reads such files by pyarrow and DuckDB.
#include "ndp/labels/parquet_writer.h"

#include <gmock/gmock.h>
#include <zstd.h>

#include <bit>
#include <map>
#include <optional>
#include <variant>

#include "framework/core/byte_reader.h"
#include "framework/core/coding.h"
#include "framework/core/rng.h"
#include "ndp/labels/label_files.h"
#include "tests/labels/labels_fixture.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;
using Type = ParquetWriter::Type;

// A value of Thrift's compact protocol, by what the bytes say alone.
struct ThriftValue {
  int64_t number = 0;
  std::string text;
  std::vector<ThriftValue> list;
  std::map<int, ThriftValue> fields;
  const ThriftValue& operator[](int id) const { return fields.at(id); }
};

class ThriftReader {
 public:
  explicit ThriftReader(std::string_view bytes) : bytes_(bytes) {}

  ThriftValue structure() {
    ThriftValue v;
    for (int id = 0;;) {
      const int head = byte();
      if (head == 0) return v;
      id = head >> 4 ? id + (head >> 4) : static_cast<int>(zigzag());
      v.fields[id] = value(head & 15);
    }
  }
  size_t at() const { return at_; }

 private:
  int byte() { return static_cast<uint8_t>(bytes_.at(at_++)); }
  uint64_t varint() {
    uint64_t n = 0;
    for (int shift = 0;; shift += 7) {
      const int b = byte();
      n |= static_cast<uint64_t>(b & 127) << shift;
      if (b < 128) return n;
    }
  }
  int64_t zigzag() {
    const uint64_t n = varint();
    return static_cast<int64_t>(n >> 1) ^ -static_cast<int64_t>(n & 1);
  }
  ThriftValue value(int kind) {
    ThriftValue v;
    switch (kind) {
      case 4:
      case 5:
      case 6:
        v.number = zigzag();
        return v;
      case 8: {
        const uint64_t n = varint();
        v.text = bytes_.substr(at_, n);
        at_ += n;
        return v;
      }
      case 9: {
        const int head = byte();
        const uint64_t n = head >> 4 == 15 ? varint() : static_cast<uint64_t>(head >> 4);
        for (uint64_t i = 0; i < n; ++i) v.list.push_back(value(head & 15));
        return v;
      }
      case 12:
        return structure();
      default:
        throw Error("kind ", kind);
    }
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

using Cell = std::optional<std::variant<std::string, int64_t, double, bool>>;
using Cells = std::vector<Cell>;
struct Column {
  ThriftValue schema;
  std::vector<Cell> cells;
};

template <typename T>
T number_at(std::string_view bytes) {
  return load_le<T>(reinterpret_cast<const std::byte*>(bytes.substr(0, sizeof(T)).data()));
}

// Whether the values of a page are there; takes the levels from its front.
std::vector<bool> levels(std::string_view& page, bool optional, size_t rows) {
  std::vector<bool> there;
  if (!optional) return std::vector<bool>(rows, true);
  const auto n = number_at<uint32_t>(page);
  ByteReader runs(page.substr(4, n));
  while (there.size() < rows) {
    const uint64_t run = runs.varint();
    EXPECT_EQ(run % 2, 0U) << "a run of RLE";
    there.insert(there.end(), run / 2, runs.bytes(1)[0] == 1);
  }
  page.remove_prefix(4 + n);
  return there;
}

void read_page(std::string_view bytes, const ThriftValue& chunk, size_t rows, Column& to) {
  const ThriftValue& about = chunk[3];
  ThriftReader reader(bytes.substr(static_cast<size_t>(about[9].number)));
  const ThriftValue header = reader.structure();
  EXPECT_EQ(header[1].number, 0) << "a data page";
  EXPECT_EQ(header[5][1].number, static_cast<int64_t>(rows));
  EXPECT_EQ(static_cast<int64_t>(reader.at()) + header[3].number, about[7].number);
  EXPECT_EQ(static_cast<int64_t>(reader.at()) + header[2].number, about[6].number);
  const std::string_view packed = bytes.substr(static_cast<size_t>(about[9].number) + reader.at(),
                                               static_cast<size_t>(header[3].number));
  std::string plain(static_cast<size_t>(header[2].number), '\0');
  ASSERT_EQ(ZSTD_decompress(plain.data(), plain.size(), packed.data(), packed.size()),
            plain.size());
  std::string_view page = plain;
  size_t bit = 0;
  for (const bool there : levels(page, to.schema[3].number == 1, rows)) {
    Cell& cell = to.cells.emplace_back();
    if (!there) continue;
    switch (to.schema[1].number) {
      case 0:
        cell = (page[bit / 8] >> (bit % 8) & 1) == 1;
        ++bit;
        break;
      case 2:
      case 5: {
        const auto n = number_at<int64_t>(page);
        if (to.schema[1].number == 2) cell = n;
        if (to.schema[1].number == 5) cell = std::bit_cast<double>(n);
        page.remove_prefix(8);
        break;
      }
      default: {
        const auto n = number_at<uint32_t>(page);
        cell = std::string(page.substr(4, n));
        page.remove_prefix(4 + n);
      }
    }
  }
  EXPECT_EQ(page.size(), (bit + 7) / 8) << "nothing is left over";
}

// Columns by name; the number of row groups.
std::pair<std::map<std::string, Column>, size_t> read_parquet(std::string_view bytes) {
  std::map<std::string, Column> columns;
  EXPECT_EQ(bytes.substr(0, 4), "PAR1");
  EXPECT_EQ(bytes.substr(bytes.size() - 4), "PAR1");
  const auto length = number_at<uint32_t>(bytes.substr(bytes.size() - 8));
  const ThriftValue m = ThriftReader(bytes.substr(bytes.size() - 8 - length)).structure();
  std::vector<std::string> names;
  for (size_t i = 1; i < m[2].list.size(); ++i) {
    names.push_back(m[2].list[i][4].text);
    columns[names.back()].schema = m[2].list[i];
  }
  EXPECT_EQ(m[2].list[0][5].number, static_cast<int64_t>(names.size()));
  int64_t rows = 0;
  for (const ThriftValue& group : m[4].list) {
    rows += group[3].number;
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(group[1].list[i][3][3].list[0].text, names[i]);
      read_page(bytes, group[1].list[i], static_cast<size_t>(group[3].number), columns[names[i]]);
    }
  }
  EXPECT_EQ(m[3].number, rows);
  return {columns, m[4].list.size()};
}

struct Written {
  std::string bytes;
  ParquetWriter::Write write = [this](std::string_view more) {
    bytes += more;
    return Status();
  };
};

TEST(ParquetWriterTest, ATableIsReadAsItWasWritten) {
  for (const int rows : {0, 1, 7, 8, 300}) {
    SCOPED_TRACE(rows);
    Written file;
    ParquetWriter table({{"name", Type::kText, true},
                         {"n", Type::kInteger},
                         {"score", Type::kReal, true},
                         {"yes", Type::kBoolean},
                         {"perhaps", Type::kBoolean, true},
                         {"at", Type::kTime}},
                        file.write, /*row_group=*/1000);
    std::map<std::string, std::vector<Cell>> expected;
    Rng rng(static_cast<uint64_t>(rows), "parquet");
    const auto add = [&](const std::string& name, bool optional, Cell cell, auto put) {
      if (optional && rng.next_below(3) == 0) {
        table.none();
        expected[name].emplace_back();
      } else {
        put();
        expected[name].push_back(std::move(cell));
      }
    };
    for (int i = 0; i < rows; ++i) {
      const std::string name = "Kürbis " + std::to_string(rng.next_below(50));
      const auto n = static_cast<int64_t>(rng.next_bits());
      const double score = static_cast<double>(rng.next_below(1000)) / 7;
      const bool yes = rng.next_below(2) == 1;
      const auto second = static_cast<int64_t>(rng.next_below(4'000'000'000)) - 1'000'000'000;
      add("name", true, name, [&] { table.text(name); });
      add("n", false, n, [&] { table.integer(n); });
      add("score", true, score, [&] { table.real(score); });
      add("yes", false, yes, [&] { table.boolean(yes); });
      add("perhaps", true, !yes, [&] { table.boolean(!yes); });
      add("at", false, second * 1'000'000, [&] { table.time(second); });
      table.end_row().or_throw();
    }
    table.finish().or_throw();
    EXPECT_EQ(table.rows(), rows);
    const auto [columns, groups] = read_parquet(file.bytes);
    for (const auto& [name, cells] : expected) EXPECT_EQ(columns.at(name).cells, cells) << name;
    EXPECT_EQ(columns.size(), 6U);
    EXPECT_GE(groups, static_cast<size_t>(rows) / 40);
    EXPECT_EQ(columns.at("name").schema[6].number, 0) << "UTF-8";
    EXPECT_EQ(columns.at("at").schema[6].number, 10) << "microseconds";
  }
}

TEST(ParquetWriterTest, WhatTheFormatCannotSayIsNoFile) {
  const std::vector<ParquetWriter::Column> columns = {{"name", Type::kText}, {"at", Type::kTime}};
  Written file;
  ParquetWriter name(columns, file.write);
  name.text("\xff");
  name.time(0);
  EXPECT_EQ(name.end_row().code(), Code::kCorrupt);
  ParquetWriter time(columns, file.write);
  time.text("");
  time.time(INT64_MAX / 1'000'000 + 1);
  EXPECT_THAT(time.end_row().message(), HasSubstr("at: "));
  ParquetWriter wrong(columns, file.write);
  EXPECT_THROW(wrong.time(1), Error);
  EXPECT_THROW(wrong.none(), Error);
  wrong.text("a");
  EXPECT_THROW((void)wrong.end_row(), Error);
  wrong.time(1);
  EXPECT_THROW(wrong.time(1), Error);
  ParquetWriter full(columns, [](std::string_view) { return Status(Code::kNoSpace, "full"); });
  EXPECT_EQ(full.finish().code(), Code::kNoSpace);
}

TEST(ParquetWriterTest, LabelsAreATableWithTheColumnsOfCsv) {
  const testing_labels::TemporaryDb file;
  const auto db = file.open();
  const int64_t collection = db->collection("c").or_throw(), task = db->task("t").or_throw();
  const auto photos = db->add_photos(collection, testing_labels::places(0, 3)).or_throw();
  const std::vector<std::string> names{"cat", "dog"};
  const auto classes = db->class_ids(task, names).or_throw();
  const int64_t version = db->version(task, {.number = 7, .content = sha256("v")}).or_throw();
  LabelBatch made{.task = task, .source = LabelSource::kModel, .version = version};
  made.labels = {{.photo = photos[0], .class_id = classes[0], .score = 0.25, .time = 1000},
                 {.photo = photos[1], .class_id = classes[1], .score = 0.5, .time = 2000}};
  (void)db->put_labels(made).or_throw();
  LabelBatch said{.task = task, .source = LabelSource::kHuman};
  said.labels = {{.photo = photos[2], .class_id = classes[1], .time = 3000}};
  (void)db->put_labels(said).or_throw();
  Written written;
  EXPECT_EQ(export_labels(*db, {.collection = collection, .task = task}, written.write,
                          LabelFormat::kParquet)
                .or_throw(),
            3);
  auto [columns, groups] = read_parquet(written.bytes);
  EXPECT_EQ(groups, 1U);
  EXPECT_EQ(columns["label"].cells, (Cells{"cat", "dog", "dog"}));
  EXPECT_EQ(columns["score"].cells, (Cells{0.25, 0.5, std::nullopt}));
  EXPECT_EQ(columns["version"].cells, (Cells{"7", "7", std::nullopt}));
  EXPECT_EQ(columns["content"].cells,
            (Cells{to_hex(sha256("v")), to_hex(sha256("v")), std::nullopt}));
  EXPECT_EQ(columns["source"].cells, (Cells{"model", "model", "human"}));
  EXPECT_EQ(columns["time"].cells,
            (Cells{int64_t{1'000'000'000}, int64_t{2'000'000'000}, int64_t{3'000'000'000}}));
  EXPECT_EQ(columns["path"].cells, (Cells{"photo 0.jpg", "photo 1.jpg", "photo 2.jpg"}));
  EXPECT_EQ(columns["at_random"].cells, (Cells{false, false, false}));
  EXPECT_EQ(columns["store"].cells, (Cells{std::nullopt, std::nullopt, std::nullopt}));
  EXPECT_THROW((void)import_labels(*db, collection, task, written.bytes, 1, LabelSource::kImport,
                                   LabelFormat::kParquet),
               Error);
}

}  // namespace
}  // namespace ndtrain::ndp
