#include "ndp/http/form_data.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace ndtrain::ndp {
namespace {

constexpr std::string_view kForm = "multipart/form-data";
constexpr std::string_view kLine = "\r\n", kEmptyLine = "\r\n\r\n";
constexpr size_t kBoundary = 70;  // characters, by RFC 2046

bool begins(std::string_view text, std::string_view with) {
  return text.size() >= with.size() &&
         std::equal(with.begin(), with.end(), text.begin(), [](char a, unsigned char b) {
           return a == static_cast<char>(std::tolower(b));
         });
}

// "": there is none, or none that may be.
std::string boundary_of(std::string_view type) {
  for (size_t at = type.find(';'); at != type.npos; at = type.find(';', at + 1)) {
    std::string_view part = type.substr(at + 1);
    part.remove_prefix(std::min(part.find_first_not_of(" \t"), part.size()));
    if (!begins(part, "boundary=")) continue;
    part.remove_prefix(std::string_view("boundary=").size());
    const bool quoted = part.starts_with('"');
    if (quoted) part.remove_prefix(1);
    part = part.substr(0, part.find_first_of(quoted ? "\"" : "; \t"));
    return part.size() <= kBoundary ? std::string(part) : "";
  }
  return "";
}

// Whether the headers of a part name a file.
bool is_file(std::string_view headers) {
  for (size_t at = 0; at < headers.size();) {
    const size_t end = std::min(headers.find(kLine, at), headers.size());
    const std::string_view line = headers.substr(at, end - at);
    at = end + kLine.size();
    if (!begins(line, "content-disposition:")) continue;
    for (size_t i = line.find("filename"); i != line.npos; i = line.find("filename", i + 1)) {
      const std::string_view rest = line.substr(i + std::string_view("filename").size());
      if (rest.starts_with("*=")) return true;
      if (rest.starts_with("=")) return rest != "=" && rest.substr(0, 3) != "=\"\"";
    }
  }
  return false;
}

}  // namespace

bool is_form(std::string_view content_type) { return begins(content_type, kForm); }

Status leave_the_file(std::string_view content_type, std::string& body) {
  const Status wrong(Code::kCorrupt, "the form ended early, or is not what its header says");
  const std::string boundary = boundary_of(content_type);
  if (boundary.empty()) return wrong;
  const std::string first = "--" + boundary, next = "\r\n" + first;
  std::optional<std::pair<size_t, size_t>> file;  // where it is
  size_t at = body.find(first);
  // What stands before the first part is of no meaning, but begins no line with the boundary.
  if (at != 0 && (at == body.npos || (at = body.find(next)) == body.npos)) return wrong;
  at += at == 0 ? first.size() : next.size();
  const std::string_view text = body;
  while (text.substr(at, 2) == kLine) {
    const size_t headers = at;  // the line feed that ends the boundary begins them, too
    const size_t begin = text.find(kEmptyLine, headers);
    const size_t end = begin == text.npos ? begin : text.find(next, begin + kLine.size());
    if (end == text.npos) return wrong;
    const size_t content = std::min(begin + kEmptyLine.size(), end);
    const size_t fields = headers + kLine.size();
    if (begin > fields && is_file(text.substr(fields, begin - fields))) {
      if (file) return {Code::kExists, "it takes one file at a time"};
      file = {content, end - content};
    }
    at = end + next.size();
  }
  if (text.substr(at, 2) != "--") return wrong;
  if (!file) {
    return {Code::kNotFound, "the form has no file in it; curl -F photo=@x.jpg sends one"};
  }
  body.erase(file->first + file->second);
  body.erase(0, file->first);
  return {};
}

}  // namespace ndtrain::ndp
