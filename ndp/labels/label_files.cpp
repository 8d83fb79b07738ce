#include "ndp/labels/label_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "framework/core/csv.h"
#include "framework/core/json.h"
#include "framework/core/utc_text.h"
#include "ndp/labels/label_json.h"
#include "ndp/labels/parquet_writer.h"

namespace ndtrain::ndp {
namespace {

// What a file says of a label, in this order.
enum Field { kPath, kLabel, kScore, kSource, kTime, kAtRandom, kFields };
constexpr std::string_view kFieldNames[] = {"path",   "label", "score",
                                            "source", "time",  "at_random"};
using Record = std::array<std::string, kFields>;

// Which column of a CSV each field is in.
using Columns = std::array<size_t, kFields>;
constexpr size_t kNoColumn = SIZE_MAX;
constexpr Columns kNoHeader = {0, 1, kNoColumn, kNoColumn, kNoColumn, kNoColumn};

// None if the record does not look like a header.
std::optional<Columns> header_of(const std::vector<std::string>& names) {
  Columns columns;
  for (size_t f = 0; f < kFields; ++f) {
    const std::string_view other = f == kPath ? "file" : f == kLabel ? "class" : kFieldNames[f];
    const auto at = std::ranges::find_if(
        names, [&](const auto& name) { return name == kFieldNames[f] || name == other; });
    columns[f] = at == names.end() ? kNoColumn : static_cast<size_t>(at - names.begin());
  }
  if (columns[kPath] == kNoColumn || columns[kLabel] == kNoColumn) return {};
  return columns;
}

template <typename T>
bool parse(const std::string& text, T& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size();
}

struct Row {
  std::string path, label;
  std::optional<double> score;
  std::optional<int64_t> time;  // none: now
  bool at_random = false;
};

class Importer {
 public:
  Importer(LabelDb& db, int64_t collection, int64_t task, int64_t now)
      : db_(db), collection_(collection), task_(task), now_(now) {}

  Status read_csv(std::string_view csv) {
    CsvReader reader(csv);
    Columns columns = kNoHeader;
    for (bool first = true;; first = false) {
      const std::optional<std::vector<std::string>> fields = reader.next();
      if (!fields && reader.broken()) return bad_line(reader.line(), "a quote is never closed");
      if (!fields) return {};
      if (fields->size() == 1 && fields->front().empty()) continue;
      if (const auto header = first ? header_of(*fields) : std::nullopt) {
        columns = *header;
        continue;
      }
      Record record;
      for (size_t f = 0; f < kFields; ++f) {
        if (columns[f] < fields->size()) record[f] = (*fields)[columns[f]];
      }
      if (Status s = take(record); !s.ok()) return bad_line(reader.line(), s.message());
    }
  }

  Status read_json_lines(std::string_view text) {
    for (int64_t line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      const std::string_view one = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (one.find_first_not_of(" \t\r") == one.npos) continue;
      const Json json = try_parse_json(one);
      if (!json.is_object()) return bad_line(line, "no JSON object");
      if (Status s = take(record_of(json)); !s.ok()) return bad_line(line, s.message());
    }
    return {};
  }

  Status read_json(std::string_view text) {
    const Json json = try_parse_json(text);
    if (!json.is_array()) return {Code::kCorrupt, "no JSON array"};
    int64_t n = 0;
    for (const Json& row : json) {
      const Status s =
          row.is_object() ? take(record_of(row)) : Status(Code::kCorrupt, "no JSON object");
      ++n;
      if (!s.ok()) return {s.code(), "label " + std::to_string(n) + ": " + s.message()};
    }
    return {};
  }

  Result<LabelImport> write(LabelSource source) {
    std::vector<std::string> names;
    for (const Row& row : rows_) names.push_back(row.label);
    Result<std::vector<int64_t>> ids = db_.class_ids(task_, names);
    if (!ids.ok()) return ids.status();
    LabelBatch batch{.task = task_, .source = source};
    for (size_t i = 0; i < rows_.size(); ++i) {
      batch.labels.push_back({.photo = photos_[i],
                              .class_id = (*ids)[i],
                              .score = rows_[i].score,
                              .time = rows_[i].time.value_or(now_),
                              .just_now = !rows_[i].time,
                              .at_random = rows_[i].at_random});
    }
    Result<PutReport> put = db_.put_labels(batch);
    if (!put.ok()) return put.status();
    report_.added = put->added;
    return std::move(report_);
  }

 private:
  static Record record_of(const Json& object) {
    Record record;
    for (size_t f = 0; f < kFields; ++f) {
      const auto it = object.find(kFieldNames[f]);
      if (it == object.end() || it->is_null()) continue;
      record[f] = it->is_string() ? it->get<std::string>() : json_text(*it);
    }
    return record;
  }

  static Status bad_line(int64_t line, const std::string& why) {
    return {Code::kCorrupt, "line " + std::to_string(line) + ": " + why};
  }

  Status take(const Record& record) {
    ++report_.rows;
    Row row{.path = record[kPath], .label = record[kLabel]};
    if (row.path.empty() || row.label.empty()) return {Code::kCorrupt, "no path or no label"};
    if (const std::string& score = record[kScore]; !score.empty()) {
      if (!parse(score, row.score.emplace()) || !std::isfinite(*row.score)) {
        return {Code::kCorrupt, "'" + score + "' is no score"};
      }
    }
    if (const std::string& time = record[kTime]; !time.empty()) {
      row.time = from_utc_text(time);
      if (!row.time && !parse(time, row.time.emplace())) {
        return {Code::kCorrupt,
                "'" + time + "' is no time, neither in Unix seconds nor as '" + utc_text(0) + "'"};
      }
    }
    if (const std::string& drawn = record[kAtRandom]; !drawn.empty()) {
      row.at_random = drawn == "1" || drawn == "true";
      if (!row.at_random && drawn != "0" && drawn != "false") {
        return {Code::kCorrupt, "at_random is '" + drawn + "', neither 1 nor 0"};
      }
    }
    if (const std::string& source = record[kSource]; !source.empty()) {
      const std::optional<LabelSource> named = label_source_named(source);
      if (!named) return {Code::kCorrupt, "'" + source + "' is no source"};
      if (*named == LabelSource::kModel) {
        ++report_.model_rows;
        return {};
      }
    }
    Result<int64_t> photo = db_.find_photo(collection_, row.path);
    if (photo.ok()) {
      photos_.push_back(*photo);
      rows_.push_back(std::move(row));
      return {};
    }
    if (photo.status().code() != Code::kNotFound) return photo.status();
    ++report_.unknown_photos;
    if (report_.unknown.size() < 10) report_.unknown.push_back(row.path);
    return {};
  }

  LabelDb& db_;
  const int64_t collection_, task_, now_;
  std::vector<Row> rows_;
  std::vector<int64_t> photos_;  // beside rows_
  LabelImport report_;
};

const std::vector<std::string> kColumns = {"path",    "label", "score", "source",   "version",
                                           "content", "time",  "store", "at_random"};

std::string csv_line(const LabelRow& row) {
  const std::optional<Digest>& content = row.version_content;
  return csv_row({row.path, row.class_name, row.score ? fmt::format("{}", *row.score) : "",
                  std::string(name_of(row.source)),
                  content ? version_name(row.version_number, *content) : "",
                  content ? to_hex(*content) : "", std::to_string(row.time), row.store,
                  row.at_random ? "1" : ""});
}

// `rows` before it were written.
Result<std::string> text_of(const LabelPage& page, LabelFormat format, int64_t rows) {
  std::string text;
  for (const LabelRow& row : page.rows) {
    try {
      if (format == LabelFormat::kJson) text += rows++ == 0 ? "\n" : ",\n";
      text += format == LabelFormat::kCsv ? csv_line(row) : json_text(to_json(row));
      if (format == LabelFormat::kJsonLines) text += "\n";
    } catch (const Json::type_error&) {
      return Status(Code::kCorrupt, "'" + row.path + "' or its label is not UTF-8, which JSON" +
                                        " cannot say; export as CSV");
    }
  }
  return text;
}

// Of all that the query finds, whatever its limit.
Status each_page(LabelDb& db, LabelQuery query,
                 const std::function<Status(const LabelPage&)>& take) {
  query.limit = 1000;
  for (;;) {
    const Result<LabelPage> page = db.query(query);
    if (!page.ok()) return page.status();
    if (Status s = take(*page); !s.ok()) return s;
    if (!page->next) return {};
    query.after = *page->next;
  }
}

void add_row(const LabelRow& row, ParquetWriter& to) {
  const auto text = [&](const std::string& value) { value.empty() ? to.none() : to.text(value); };
  const std::optional<Digest>& content = row.version_content;
  to.text(row.path);
  to.text(row.class_name);
  row.score ? to.real(*row.score) : to.none();
  to.text(name_of(row.source));
  text(content ? version_name(row.version_number, *content) : "");
  text(content ? to_hex(*content) : "");
  to.time(row.time);
  text(row.store);
  to.boolean(row.at_random);
}

Result<int64_t> export_table(LabelDb& db, const LabelQuery& query,
                             const ParquetWriter::Write& write) {
  using enum ParquetWriter::Type;
  ParquetWriter table({{"path", kText},
                       {"label", kText},
                       {"score", kReal, true},
                       {"source", kText},
                       {"version", kText, true},
                       {"content", kText, true},
                       {"time", kTime},
                       {"store", kText, true},
                       {"at_random", kBoolean}},
                      write);
  const Status s = each_page(db, query, [&](const LabelPage& page) -> Status {
    for (const LabelRow& row : page.rows) {
      add_row(row, table);
      if (Status end = table.end_row(); !end.ok()) return end;
    }
    return {};
  });
  if (!s.ok()) return s;
  if (Status end = table.finish(); !end.ok()) return end;
  return table.rows();
}

}  // namespace

Result<LabelImport> import_labels(LabelDb& db, int64_t collection, int64_t task,
                                  std::string_view text, int64_t now, LabelSource source,
                                  LabelFormat format) {
  if (source == LabelSource::kModel) throw Error("import_labels: a file cannot speak for a model");
  if (format == LabelFormat::kParquet) throw Error("import_labels: Parquet is not read");
  Importer importer(db, collection, task, now);
  const Status s = format == LabelFormat::kCsv         ? importer.read_csv(text)
                   : format == LabelFormat::kJsonLines ? importer.read_json_lines(text)
                                                       : importer.read_json(text);
  if (!s.ok()) return s;
  return importer.write(source);
}

Result<int64_t> export_labels(LabelDb& db, LabelQuery query,
                              const std::function<Status(std::string_view)>& write,
                              LabelFormat format) {
  if (format == LabelFormat::kParquet) return export_table(db, query, write);
  int64_t rows = 0;
  const std::string begin = format == LabelFormat::kCsv    ? csv_row(kColumns)
                            : format == LabelFormat::kJson ? "["
                                                           : "";
  if (Status s = write(begin); !s.ok()) return s;
  const Status s = each_page(db, query, [&](const LabelPage& page) -> Status {
    Result<std::string> text = text_of(page, format, rows);
    if (!text.ok()) return text.status();
    if (!page.next && format == LabelFormat::kJson) *text += "\n]\n";
    rows += static_cast<int64_t>(page.rows.size());
    return write(*text);
  });
  if (!s.ok()) return s;
  return rows;
}

}  // namespace ndtrain::ndp
