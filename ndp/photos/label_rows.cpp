#include "ndp/photos/label_rows.h"

#include <algorithm>
#include <optional>

#include "framework/core/csv.h"
#include "framework/core/json.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kNoColumn = SIZE_MAX;

struct Columns {
  size_t file = 0, name = 1, source = kNoColumn;
  size_t least = 2, most = 2;  // columns of a line
};

size_t column_of(const std::vector<std::string>& names, std::string_view one,
                 std::string_view other) {
  const auto at = std::ranges::find_if(names, [&](auto& n) { return n == one || n == other; });
  return at == names.end() ? kNoColumn : static_cast<size_t>(at - names.begin());
}

// None if the record does not look like column names.
std::optional<Columns> columns_in(const std::vector<std::string>& names) {
  Columns c{.file = column_of(names, "file", "path"),
            .name = column_of(names, "class", "label"),
            .source = column_of(names, "source", "source")};
  if (c.file == kNoColumn || c.name == kNoColumn) return {};
  c.least = std::max(c.file, c.name) + 1;
  c.most = names.size();
  return c;
}

class LabelRowsReader {
 public:
  explicit LabelRowsReader(const std::string& path) : path_(path) {}

  Status read_csv(std::string_view text) {
    CsvReader reader(text);
    Columns columns;
    for (bool first = true;; first = false) {
      std::optional<std::vector<std::string>> fields = reader.next();
      if (!fields) break;
      if (fields->size() == 1 && fields->front().empty()) continue;
      if (const auto named = first ? columns_in(*fields) : std::nullopt) {
        columns = *named;
        continue;
      }
      const size_t n = fields->size();
      if (n < columns.least || n > columns.most) {
        return wrong(reader.line(), std::to_string(n) + " columns, not " +
                                        (columns.most == 2 ? std::string("file,class")
                                                           : std::to_string(columns.most)));
      }
      const bool model = columns.source < n && (*fields)[columns.source] == "model";
      take({reader.line(), std::move((*fields)[columns.file]), std::move((*fields)[columns.name])},
           model);
    }
    if (reader.broken()) return wrong(reader.line(), "a quote is not closed");
    return {};
  }

  Status read_json_lines(std::string_view text) {
    for (int64_t line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      const std::string_view one = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (one.find_first_not_of(" \t\r") == one.npos) continue;
      if (Status s = take(line, try_parse_json(one)); !s.ok()) return s;
    }
    return {};
  }

  Status read_json(std::string_view text) {
    const Json json = try_parse_json(text);
    if (!json.is_array()) return {Code::kCorrupt, path_ + ": no JSON array"};
    int64_t n = 0;
    for (const Json& label : json) {
      if (Status s = take(++n, label); !s.ok()) return s;
    }
    return {};
  }

  LabelFileRows result;

 private:
  Status wrong(int64_t line, const std::string& what) const {
    return {Code::kCorrupt, path_ + " line " + std::to_string(line) + ": " + what};
  }

  Status take(int64_t line, const Json& label) {
    const auto text = [&](const char* key) {
      const auto it = label.find(key);
      return it == label.end() || !it->is_string() ? std::string() : it->get<std::string>();
    };
    if (!label.is_object()) return wrong(line, "no JSON object");
    if (text("path").empty() || text("label").empty()) {
      return wrong(line, "no path or no label");
    }
    take({line, text("path"), text("label")}, text("source") == "model");
    return {};
  }

  void take(LabelFileRow row, bool by_model) {
    if (by_model) {
      ++result.by_models;
    } else {
      result.rows.push_back(std::move(row));
    }
  }

  const std::string& path_;
};

}  // namespace

Result<LabelFileRows> read_label_rows(const std::string& path, std::string_view text) {
  LabelRowsReader reader(path);
  const Status s = path.ends_with(".jsonl")  ? reader.read_json_lines(text)
                   : path.ends_with(".json") ? reader.read_json(text)
                                             : reader.read_csv(text);
  if (!s.ok()) return s;
  return std::move(reader.result);
}

}  // namespace ndtrain::ndp
