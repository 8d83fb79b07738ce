#include "ndp/http/audit.h"

#include <algorithm>

#include "framework/core/checksummed_json.h"
#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "framework/core/publish.h"

namespace ndtrain::ndp {
namespace {

constexpr std::chrono::milliseconds kPause{5};
constexpr int kAttempts = 400;  // another process has the file for an fsync or two
constexpr size_t kAsked = 4096;

std::string text_of(const AuditLine& line, int64_t now) {
  Json json = {{"time", now},
               {"who", line.who},
               {"address", line.address},
               {"what", line.what},
               {"request", line.request}};
  if (!line.asked.empty() && line.asked.size() <= kAsked) {
    Result<Json> asked = read_json(line.asked);
    if (asked.ok()) json["asked"] = std::move(*asked);
  }
  if (!line.before.empty()) json["before"] = line.before;
  if (line.failed != 0) json["failed"] = line.failed;
  return checksummed(parse_json(json_text_replacing(json)), -1);
}

bool is_whole(const std::string& text) {
  try {
    return verified(text).is_object();
  } catch (const Error&) {
    return false;
  }
}

// As it is shown.
std::string shown(const std::string& text) {
  if (is_whole(text)) return json_text(verified(text));
  return json_text_replacing(
      Json({{"damaged", "this line is not as it was written"}, {"text", text}}));
}

// The photo that a line is about, in hex; "": none of these. A request may have one more part
// behind the photo's own path, or name it otherwise and have its digest as what was before.
std::string photo_of(const Json& line, const std::map<std::string, Digest>& photos) {
  const std::string what = line.value("what", ""), request = line.value("request", "");
  if (what != "label" && what != "deletion" && what != "trash" && what != "restore") return "";
  const std::string path = request.substr(std::min(request.find(' '), request.size() - 1) + 1);
  for (const std::string& name :
       {path, path.substr(0, path.rfind('/')), "/photos/" + line.value("before", "")}) {
    if (const auto it = photos.find(name); it != photos.end()) return to_hex(it->second);
  }
  return "";
}

// Nothing changes in a line that is forgotten twice. One that is damaged stays so.
std::string forgotten(const std::string& text, const std::map<std::string, Digest>& photos) {
  Json line = try_parse_json(text);
  if (!line.is_object()) return text;
  const std::string photo = photo_of(line, photos);
  if (photo.empty()) return text;
  const std::string request = line.at("request");
  line["request"] = request.substr(0, request.find(' ')) + " /photos/" + photo;
  line.erase("asked");
  line.erase("before");
  if (!is_whole(text)) return json_text_replacing(line);
  line.erase("checksum");
  std::string now = checksummed(line, -1);
  now.pop_back();  // the line feed
  return now;
}

// What is behind the last line feed is cut off, or a line whose own is another byte by now.
bool ends_in_another_byte(std::string_view rest) {
  return rest.size() > 1 && is_whole(std::string(rest.substr(0, rest.size() - 1)));
}

// Up to and with the last line feed.
Result<int64_t> whole_lines(File& file, int64_t size) {
  std::string part(4096, '\0');
  while (size > 0) {
    const int64_t from = std::max<int64_t>(0, size - static_cast<int64_t>(part.size()));
    const auto n = static_cast<size_t>(size - from);
    const Result<size_t> got = file.read_at(from, std::as_writable_bytes(std::span(part).first(n)));
    if (!got.ok()) return got.status();
    const size_t at = part.rfind('\n', n - 1);
    if (at != std::string::npos && at < n) return from + static_cast<int64_t>(at) + 1;
    size = from;
  }
  return int64_t{0};
}

}  // namespace

std::string AuditLog::path(int i) const {
  return join(directory_, i == 0 ? "audit.jsonl" : "audit." + std::to_string(i) + ".jsonl");
}

Result<std::unique_ptr<FileLock>> AuditLog::lock() {
  for (int i = 0;; ++i) {
    Result<std::unique_ptr<FileLock>> held = fs_.lock(join(directory_, "audit.lock"));
    if (held.ok() || held.status().code() != Code::kExists || i == kAttempts) return held;
    clock_.sleep(kPause);
  }
}

Status AuditLog::add(std::span<const AuditLine> lines) {
  const int64_t now = clock_.unix_seconds();
  std::string text;
  for (const AuditLine& line : lines) text += text_of(line, now);
  const std::lock_guard guard(mutex_);
  const Result<std::unique_ptr<FileLock>> held = lock();
  if (!held.ok()) return held.status();
  return append(text);
}

Status AuditLog::rotate() {
  for (int i = kAuditFiles - 1; i > 0; --i) {
    if (!fs_.exists(path(i - 1))) continue;
    if (Status s = fs_.rename(path(i - 1), path(i)); !s.ok()) return s;
  }
  return {};
}

// A crash leaves a part of a line that nobody was answered for, a disk perhaps a line that lacks
// its end. Returns where the next line begins.
Result<int64_t> AuditLog::end_of_lines(File& file) {
  const Result<int64_t> size = file.size();
  if (!size.ok()) return size;
  const Result<int64_t> whole = whole_lines(file, *size);
  if (!whole.ok() || *whole == *size) return whole;
  std::string rest(static_cast<size_t>(*size - *whole), '\0');
  const Result<size_t> got = file.read_at(*whole, std::as_writable_bytes(std::span(rest)));
  if (!got.ok()) return got.status();
  const bool is_line = ends_in_another_byte(rest);
  const int64_t end = is_line ? *size - 1 : *whole;
  if (Status s = file.truncate(end); !s.ok()) return s;
  if (!is_line) return end;
  if (Status s = file.append(std::as_bytes(std::span("\n", 1))); !s.ok()) return s;
  return *size;
}

Status AuditLog::append(const std::string& text) {
  Result<std::unique_ptr<File>> file = fs_.open(path(0), Fs::Mode::kAppend);
  if (!file.ok()) return file.status();
  const Result<int64_t> lines = end_of_lines(**file);
  if (!lines.ok()) return lines.status();
  int64_t end = *lines;
  if (end > 0 && end + static_cast<int64_t>(text.size()) > kAuditBytes) {
    if (Status s = rotate(); !s.ok()) return s;
    file = fs_.open(path(0), Fs::Mode::kAppend);
    if (!file.ok()) return file.status();
    end = 0;
  }
  if (Status s = (*file)->append(std::as_bytes(std::span(text))); !s.ok()) {
    static_cast<void>((*file)->truncate(end).ok());  // or the next line drops what is left of it
    return s;
  }
  (*file)->sync();
  if (end == 0) fs_.sync_directory(directory_);
  return {};
}

Status AuditLog::forget(const std::map<std::string, Digest>& photos) {
  const std::lock_guard guard(mutex_);
  const Result<std::unique_ptr<FileLock>> held = lock();
  if (!held.ok()) return held.status();
  for (int i = 0; i < kAuditFiles; ++i) {
    if (Status s = forget_in(path(i), photos); !s.ok()) return s;
  }
  return {};
}

Status AuditLog::forget_in(const std::string& file, const std::map<std::string, Digest>& photos) {
  const Result<std::string> text = fs_.read(file, 2 * kAuditBytes);
  if (text.status().code() == Code::kNotFound) return {};
  if (!text.ok()) return text.status();
  std::string now;
  for (size_t at = 0, end; (end = text->find('\n', at)) != std::string::npos; at = end + 1) {
    now += forgotten(text->substr(at, end - at), photos) + "\n";
  }
  if (now == *text) return {};
  return publish(fs_, file, now);
}

Result<std::vector<std::string>> AuditLog::last(size_t most) const {
  const std::lock_guard guard(mutex_);
  std::vector<std::string> lines;  // newest first
  for (int i = 0; i < kAuditFiles && lines.size() < most; ++i) {
    const Result<std::string> text = fs_.read(path(i), 2 * kAuditBytes);
    if (text.status().code() == Code::kNotFound) continue;
    if (!text.ok()) return text.status();
    size_t end = text->rfind('\n');
    const size_t whole = end == std::string::npos ? 0 : end + 1;
    if (const std::string rest = text->substr(whole); ends_in_another_byte(rest)) {
      lines.push_back(shown(rest.substr(0, rest.size() - 1)));
    }
    while (end != std::string::npos && end > 0 && lines.size() < most) {
      const size_t before = text->rfind('\n', end - 1);
      const size_t begin = before == std::string::npos ? 0 : before + 1;
      lines.push_back(shown(text->substr(begin, end - begin)));
      end = before;
    }
  }
  std::ranges::reverse(lines);
  return lines;
}

}  // namespace ndtrain::ndp
