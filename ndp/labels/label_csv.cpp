#include "ndp/labels/label_csv.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "framework/core/csv.h"

namespace ndtrain {
namespace {

constexpr size_t kNoColumn = SIZE_MAX;

struct Columns {
  size_t path = 0, label = 1, score = kNoColumn, source = kNoColumn, time = kNoColumn;
};

// None if the record does not look like a header.
std::optional<Columns> header_of(const std::vector<std::string>& fields) {
  const auto column = [&](std::string_view name, std::string_view other = "") {
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i] == name || (!other.empty() && fields[i] == other)) return i;
    }
    return kNoColumn;
  };
  const Columns columns{column("path", "file"), column("label", "class"), column("score"),
                        column("source"), column("time")};
  if (columns.path == kNoColumn || columns.label == kNoColumn) return {};
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
  int64_t time = 0;
};

class Importer {
 public:
  Importer(LabelDb& db, int64_t collection, int64_t task, int64_t now)
      : db_(db), collection_(collection), task_(task), now_(now) {}

  Status read(std::string_view csv) {
    CsvReader reader(csv);
    for (bool first = true;; first = false) {
      const std::optional<std::vector<std::string>> fields = reader.next();
      if (!fields && reader.broken()) {
        return {Code::kCorrupt,
                "line " + std::to_string(reader.line()) + ": a quote is never closed"};
      }
      if (!fields) return {};
      if (fields->size() == 1 && fields->front().empty()) continue;
      if (const auto columns = first ? header_of(*fields) : std::nullopt) {
        columns_ = *columns;
        continue;
      }
      if (Status s = take(*fields); !s.ok()) {
        return {s.code(), "line " + std::to_string(reader.line()) + ": " + s.message()};
      }
    }
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
                              .time = rows_[i].time});
    }
    Result<PutReport> put = db_.put_labels(batch);
    if (!put.ok()) return put.status();
    report_.added = put->added;
    return std::move(report_);
  }

 private:
  Status take(const std::vector<std::string>& fields) {
    ++report_.rows;
    const auto at = [&](size_t column) {
      return column < fields.size() ? fields[column] : std::string();
    };
    Row row{.path = at(columns_.path), .label = at(columns_.label), .time = now_};
    if (row.path.empty() || row.label.empty()) return {Code::kCorrupt, "no path or no label"};
    if (const std::string score = at(columns_.score); !score.empty()) {
      if (!parse(score, row.score.emplace()) || !std::isfinite(*row.score)) {
        return {Code::kCorrupt, "'" + score + "' is no score"};
      }
    }
    if (const std::string time = at(columns_.time); !time.empty() && !parse(time, row.time)) {
      return {Code::kCorrupt, "'" + time + "' is no time in Unix seconds"};
    }
    if (const std::string source = at(columns_.source); !source.empty()) {
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
  Columns columns_;
  std::vector<Row> rows_;
  std::vector<int64_t> photos_;  // beside rows_
  LabelImport report_;
};

}  // namespace

Result<LabelImport> import_labels(LabelDb& db, int64_t collection, int64_t task,
                                  std::string_view csv, int64_t now, LabelSource source) {
  if (source == LabelSource::kModel) throw Error("import_labels: a file cannot speak for a model");
  Importer importer(db, collection, task, now);
  if (Status s = importer.read(csv); !s.ok()) return s;
  return importer.write(source);
}

Result<int64_t> export_labels(LabelDb& db, LabelQuery query,
                              const std::function<Status(std::string_view)>& write) {
  query.limit = 1000;
  int64_t rows = 0;
  if (Status s = write(csv_row({"path", "label", "score", "source", "version", "time"})); !s.ok()) {
    return s;
  }
  for (;;) {
    Result<LabelPage> page = db.query(query);
    if (!page.ok()) return page.status();
    std::string text;
    for (const LabelRow& row : page->rows) {
      text += csv_row({row.path, row.class_name,
                       row.score ? fmt::format("{}", *row.score) : std::string(),
                       std::string(name_of(row.source)),
                       row.version_content ? to_hex(*row.version_content) : std::string(),
                       std::to_string(row.time)});
    }
    if (Status s = write(text); !s.ok()) return s;
    rows += static_cast<int64_t>(page->rows.size());
    if (!page->next) return rows;
    query.after = *page->next;
  }
}

}  // namespace ndtrain
