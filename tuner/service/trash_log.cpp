#include "tuner/service/trash_log.h"

#include <fmt/format.h>

#include "framework/core/log.h"
#include "framework/core/publish.h"

namespace ndtrain::tuner {
namespace {

constexpr size_t kSum = 16;               // hex digits of a line's checksum
constexpr size_t kWorthRewriting = 1000;  // lines that count no more

std::string line_of(const Json& json) {
  const std::string text = json_text(json);
  return fmt::format("{:016x} {}\n", xxh3(text.data(), text.size()), text);
}

// Null when it is not what was written.
Json parsed(std::string_view line) {
  if (line.size() < kSum + 2 || line[kSum] != ' ') return {};
  const std::string_view text = line.substr(kSum + 1);
  if (fmt::format("{:016x}", xxh3(text.data(), text.size())) != line.substr(0, kSum)) return {};
  return try_parse_json(std::string(text));
}

// What is behind the last line feed: cut off, or a line whose own is another byte by now.
Json parsed_without_end(std::string_view rest) {
  return rest.empty() ? Json() : parsed(rest.substr(0, rest.size() - 1));
}

Json json_of(const TrashedPhoto& p) {
  return {{"photo", to_hex(p.photo)}, {"revision", p.revision}, {"who", p.who},
          {"since", p.since},         {"until", p.until},       {"paths", p.paths}};
}

}  // namespace

TrashLog::TrashLog(Fs& fs, const std::string& directory)
    : fs_(fs), path_(join(directory, "trash")) {
  const Result<std::string> bytes = fs_.read(path_);
  if (bytes.status().code() == Code::kNotFound) return;
  bytes.status().or_throw();
  read(*bytes);
  if (damaged_ || dead_ > kWorthRewriting) rewrite().or_throw();
}

Status TrashLog::check(std::string_view bytes) {
  int64_t number = 0;
  for (size_t end; (end = bytes.find('\n')) != bytes.npos; bytes.remove_prefix(end + 1)) {
    ++number;
    if (parsed(bytes.substr(0, end)).is_object()) continue;
    return {Code::kCorrupt, fmt::format("line {} is none that was written", number)};
  }
  if (!parsed_without_end(bytes).is_object()) return {};
  return {Code::kCorrupt, "the end of its last line is another"};
}

void TrashLog::read(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    if (const Json last = parsed_without_end(bytes);
        end == std::string_view::npos && last.is_object()) {
      damaged_ = true;
      return take(last);
    }
    if (end == std::string_view::npos) {
      log::warn("{}: {} bytes of an unfinished line are dropped", path_, bytes.size());
      return;
    }
    const Json line = parsed(bytes.substr(0, end));
    if (line.is_object()) {
      take(line);
    } else {
      damaged_ = true;
      log::error(
          "{}: the line at byte {} is damaged: whether that photo is in the trash is lost; see "
          "`ndtrain photos trash`, and remove it again",
          path_, size_);
    }
    size_ += static_cast<int64_t>(end) + 1;
    bytes.remove_prefix(end + 1);
  }
}

void TrashLog::take(const Json& line) {
  revision_ = std::max(revision_, line.value("revision", uint64_t{0}));
  const std::string hex = line.value("photo", "");
  if (hex.size() != 2 * sizeof(Digest)) return;
  const Digest photo = digest_from_hex(hex);
  dead_ += photos_.erase(photo) + restored_.erase(photo);
  if (line.contains("gone")) {
    ++dead_;
  } else if (line.contains("restored")) {
    restored_.insert(photo);
  } else {
    photos_.emplace(photo, TrashedPhoto{.photo = photo,
                                        .revision = line.at("revision"),
                                        .who = line.at("who"),
                                        .since = line.at("since"),
                                        .until = line.at("until"),
                                        .paths = line.at("paths")});
  }
}

Status TrashLog::put(std::vector<TrashedPhoto> photos) {
  std::vector<Json> lines;
  for (TrashedPhoto& p : photos) {
    p.revision = revision_ + 1;
    lines.push_back(json_of(p));
  }
  return commit(lines);
}

Status TrashLog::restore(std::span<const Digest> photos) {
  std::vector<Json> lines;
  for (const Digest& photo : photos) {
    if (!photos_.contains(photo)) continue;
    lines.push_back({{"photo", to_hex(photo)}, {"revision", revision_ + 1}, {"restored", true}});
  }
  return commit(lines);
}

Status TrashLog::gone(std::span<const Digest> photos) {
  std::vector<Json> lines;
  for (const Digest& photo : photos) {
    if (!photos_.contains(photo) && !restored_.contains(photo)) continue;
    lines.push_back({{"photo", to_hex(photo)}, {"revision", revision_ + 1}, {"gone", true}});
  }
  return commit(lines);
}

Status TrashLog::commit(const std::vector<Json>& lines) {
  if (lines.empty()) return {};
  std::string bytes;
  for (const Json& line : lines) bytes += line_of(line);
  // A file that is begun whole is there whatever a crash leaves of what comes after.
  Status s = size_ == 0 ? publish(fs_, path_, bytes) : append(bytes);
  if (!s.ok()) return s;
  size_ += static_cast<int64_t>(bytes.size());
  for (const Json& line : lines) take(line);
  return {};
}

Status TrashLog::append(std::string_view bytes) {
  const Result<std::unique_ptr<File>> file = fs_.open(path_, Fs::Mode::kAppend);
  if (!file.ok()) return file.status();
  // What an addition that failed has left, here or before a crash.
  if (Status s = (*file)->truncate(size_); !s.ok()) return s;
  if (Status s = (*file)->append(std::as_bytes(std::span(bytes))); !s.ok()) {
    // Of several, some may stand there whole, and would be read at the next start.
    static_cast<void>((*file)->truncate(size_).ok());
    return s;
  }
  (*file)->sync();
  return {};
}

Status TrashLog::rewrite() {
  std::string bytes = line_of({{"revision", revision_}});
  for (const auto& [photo, entry] : photos_) bytes += line_of(json_of(entry));
  for (const Digest& photo : restored_) {
    bytes += line_of({{"photo", to_hex(photo)}, {"revision", revision_}, {"restored", true}});
  }
  if (Status s = publish(fs_, path_, bytes); !s.ok()) return s;
  size_ = static_cast<int64_t>(bytes.size());
  dead_ = 0;
  damaged_ = false;
  return {};
}

}  // namespace ndtrain::tuner
