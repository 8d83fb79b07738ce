#include "framework/core/csv.h"

namespace ndtrain {

std::string csv_row(const std::vector<std::string>& fields) {
  std::string out;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) out += ',';
    if (fields[i].find_first_of(",\"\r\n") == std::string::npos) {
      out += fields[i];
      continue;
    }
    out += '"';
    for (char c : fields[i]) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    out += '"';
  }
  return out + "\n";
}

CsvReader::CsvReader(std::string_view text)
    : text_(text.starts_with("\xef\xbb\xbf") ? text.substr(3) : text) {}

std::optional<std::vector<std::string>> CsvReader::next() {
  if (at_ >= text_.size() || broken_) return std::nullopt;
  record_line_ = line_;
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\n') ++line_;
    if (quoted) {
      if (c != '"') {
        fields.back() += c;
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        fields.back() += text_[++at_];
      } else {
        quoted = false;
      }
    } else if (c == '"' && fields.back().empty()) {
      quoted = true;
    } else if (c == ',') {
      fields.emplace_back();
    } else if (c == '\n') {
      ++at_;
      return fields;
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  broken_ = quoted;
  if (broken_) return std::nullopt;
  return fields;
}

}  // namespace ndtrain
