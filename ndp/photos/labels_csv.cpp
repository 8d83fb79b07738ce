#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "framework/core/distinct_names.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "ndp/photos/dataset.h"
#include "ndp/photos/decode.h"
#include "ndp/photos/label_rows.h"

namespace ndtrain::ndp {
namespace {

std::string_view without_mark(std::string_view text) {
  return text.starts_with("\xef\xbb\xbf") ? text.substr(3) : text;
}

bool stays_inside(std::string_view path) {
  if (path.starts_with('/')) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t slash = std::min(path.find('/', begin), path.size());
    if (path.substr(begin, slash - begin) == "..") return false;
    begin = slash + 1;
  }
  return true;
}

std::optional<int64_t> index_in(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class LabelsReader {
 public:
  LabelsReader(Fs& fs, std::string csv, std::string root) : fs_(fs), csv_(std::move(csv)) {
    photos_.root = std::move(root);
  }

  Result<LabelledPhotos> read(const std::string& classes_file) {
    if (Status s = read_rows(); !s.ok()) return s;
    if (rows_.empty()) return Status(Code::kNotFound, csv_ + ": no photos");
    if (Status s = read_classes(classes_file); !s.ok()) return s;
    for (const LabelFileRow& row : rows_) {
      if (Status s = add(row); !s.ok()) return s;
    }
    if (photos_.items.empty()) {
      return Status(Code::kNotFound, csv_ + ": no photos of a supported format (JPEG and PNG are)");
    }
    return std::move(photos_);
  }

 private:
  Status wrong(int64_t line, const std::string& what, Code code = Code::kCorrupt) const {
    return {code, csv_ + " line " + std::to_string(line) + ": " + what};
  }

  Status read_rows() {
    const Result<std::string> text = fs_.read(csv_, limits::kLabelsFile);
    if (!text.ok()) return text.status();
    Result<LabelFileRows> read = read_label_rows(csv_, *text);
    if (!read.ok()) return read.status();
    rows_ = std::move(read->rows);
    const int64_t models = read->by_models;
    if (models == 0) return {};
    if (rows_.empty()) {
      return {Code::kNotFound, csv_ + ": all its " + std::to_string(models) +
                                   " labels are a model's own, which are no truth; labels that "
                                   "people, imports or folders gave are"};
    }
    log::warn("{}: {} labels are a model's own and left out; the other {} count", csv_, models,
              rows_.size());
    return {};
  }

  Status read_classes(const std::string& given) {
    classes_file_ = given.empty() ? join(parent_of(csv_), "classes.txt") : given;
    if (given.empty() && !fs_.exists(classes_file_)) {
      classes_file_.clear();
      return infer_classes();
    }
    const Result<std::string> text = fs_.read(classes_file_, limits::kLabelsFile);
    if (!text.ok()) return text.status();
    photos_.by_output = true;
    std::string_view rest = without_mark(*text);
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view name = rest.substr(0, end);
      if (name.ends_with('\r')) name.remove_suffix(1);
      photos_.classes.emplace_back(name);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    while (!photos_.classes.empty() && photos_.classes.back().empty()) photos_.classes.pop_back();
    return index_classes();
  }

  // Without a list of names.
  Status infer_classes() {
    int64_t largest = -1;
    const bool numbers = std::all_of(rows_.begin(), rows_.end(), [&](const LabelFileRow& row) {
      const std::optional<int64_t> i = index_in(row.name);
      largest = std::max(largest, i.value_or(-1));
      return i.has_value();
    });
    if (numbers && largest >= limits::kClasses) {
      return {Code::kTooLarge, csv_ + ": class " + std::to_string(largest) + ", more than " +
                                   std::to_string(limits::kClasses) + " classes"};
    }
    photos_.by_output = numbers;
    for (int64_t i = 0; numbers && i <= largest; ++i) photos_.classes.push_back(std::to_string(i));
    if (!numbers) {
      for (const LabelFileRow& row : rows_) photos_.classes.push_back(row.name);
      std::sort(photos_.classes.begin(), photos_.classes.end());
      const auto end = std::unique(photos_.classes.begin(), photos_.classes.end());
      photos_.classes.erase(end, photos_.classes.end());
    }
    return index_classes();
  }

  Status index_classes() {
    if (static_cast<int64_t>(photos_.classes.size()) > limits::kClasses) {
      return {Code::kTooLarge, csv_ + ": " + std::to_string(photos_.classes.size()) +
                                   " classes, more than " + std::to_string(limits::kClasses)};
    }
    // Names may repeat (ImageNet has two "crane"): then a row has to give the index, or the name
    // that tells them apart.
    const std::vector<std::string> listed = photos_.classes;
    const std::vector<Renamed> renamed = make_distinct(photos_.classes);
    if (!renamed.empty()) log::warn("{}: {}", classes_file_, describe(renamed));
    for (size_t i = 0; i < listed.size(); ++i) {
      label_of_.emplace(photos_.classes[i], static_cast<int>(i));
      if (photos_.classes[i] != listed[i]) label_of_[listed[i]] = kAmbiguous;
    }
    return {};
  }

  Result<int> label_of(const LabelFileRow& row) const {
    const auto named = label_of_.find(row.name);
    if (named != label_of_.end() && !row.name.empty()) {
      if (named->second != kAmbiguous) return named->second;
      return wrong(row.line, "class '" + row.name + "' is there twice in " + classes_file_ +
                                 "; give its index, or the name that tells them apart");
    }
    const std::string known = std::to_string(photos_.classes.size()) + " classes";
    const std::optional<int64_t> index = index_in(row.name);
    if (!index) return wrong(row.line, "unknown class '" + row.name + "' (" + known + ")");
    if (*index < 0 || *index >= static_cast<int64_t>(photos_.classes.size())) {
      return wrong(row.line, "class " + row.name + " is out of range: there are " + known +
                                 ", counted from 0");
    }
    return static_cast<int>(*index);
  }

  Status add(const LabelFileRow& row) {
    if (row.file.empty()) return wrong(row.line, "no file name");
    if (!stays_inside(row.file)) {
      return wrong(row.line, row.file + " is not inside " + photos_.root);
    }
    const Result<int> label = label_of(row);
    if (!label.ok()) return label.status();
    const auto [at, is_new] = seen_.emplace(row.file, *label);
    if (!is_new) {
      if (at->second == *label) return {};
      return wrong(row.line, row.file + " has a second label");
    }
    const Result<FileInfo> info = fs_.info(join(photos_.root, row.file));
    if (!info.ok()) return wrong(row.line, info.status().message(), info.status().code());
    const PhotoFormat format = format_of_extension(extension_of(row.file));
    if (format == PhotoFormat::kUnknown || can_decode(format)) {
      photos_.items.push_back({row.file, *label});
    } else {
      ++photos_.skipped[std::string(name_of(format))];
    }
    return {};
  }

  static constexpr int kAmbiguous = -1;

  Fs& fs_;
  const std::string csv_;
  std::string classes_file_;
  std::vector<LabelFileRow> rows_;
  std::unordered_map<std::string, int> label_of_, seen_;
  LabelledPhotos photos_;
};

}  // namespace

Result<LabelledPhotos> read_labels_csv(Fs& fs, const std::string& csv, const std::string& root,
                                       const std::string& classes_file) {
  return LabelsReader(fs, csv, root).read(classes_file);
}

}  // namespace ndtrain::ndp
