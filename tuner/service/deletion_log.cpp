#include "tuner/service/deletion_log.h"

#include <algorithm>

#include "framework/core/checksummed_json.h"
#include "framework/core/coding.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"

namespace ndtrain::tuner {
namespace {

constexpr std::string_view kMagic = "NDTDEL1\n";
constexpr size_t kRecord = sizeof(Digest) + 8;

uint64_t next_mark(uint64_t mark, const Digest& photo) {
  return xxh3(photo.data(), photo.size(), mark);
}

// A photo and the mark behind it.
std::pair<Digest, uint64_t> record_at(std::string_view bytes, size_t at) {
  std::pair<Digest, uint64_t> r;
  std::copy_n(bytes.data() + at, sizeof(Digest), r.first.begin());
  r.second =
      load_le<uint64_t>(reinterpret_cast<const std::byte*>(bytes.data()) + at + sizeof(Digest));
  return r;
}

}  // namespace

DeletionLog::DeletionLog(Fs& fs, const std::string& directory)
    : fs_(fs),
      path_(join(directory, "deletions")),
      forgotten_path_(join(directory, "forgotten.json")) {
  const Result<std::string> bytes = fs_.read(path_);
  if (bytes.status().code() == Code::kNotFound) return;
  bytes.status().or_throw();
  if (!bytes->starts_with(kMagic)) throw Error(path_, ": is no list of deleted photos");
  const size_t whole = read(std::string_view(*bytes).substr(kMagic.size()));
  if (const size_t rest = bytes->size() - kMagic.size() - whole; rest > 0) {
    log::warn("{}: {} bytes of an unfinished addition are dropped", path_, rest);
  }
  const Result<std::string> text = fs_.read(forgotten_path_);
  if (text.status().code() == Code::kNotFound) return;
  try {
    text.status().or_throw();
    forgotten_ = std::min(verified(*text).at("deletions").get<uint64_t>(), size());
  } catch (const std::exception& e) {
    log::warn("{}: {}; what was deleted is let go once more", forgotten_path_, e.what());
  }
}

Status DeletionLog::check(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return {Code::kCorrupt, "it is no list of deleted photos"};
  bytes.remove_prefix(kMagic.size());
  uint64_t mark = 0;
  for (size_t at = 0; at + kRecord <= bytes.size(); at += kRecord) {
    const auto [photo, said] = record_at(bytes, at);
    mark = next_mark(mark, photo);
    if (said == mark) continue;
    return {Code::kCorrupt,
            "entry " + std::to_string(at / kRecord + 1) + " is none that was written"};
  }
  return {};
}

// How many bytes of records there are. One that a disk has damaged keeps its place: the one behind
// it says whether its photo is right, or its mark.
size_t DeletionLog::read(std::string_view bytes) {
  size_t at = 0;
  for (; at + kRecord <= bytes.size(); at += kRecord) {
    const auto [photo, said] = record_at(bytes, at);
    uint64_t right = next_mark(mark(size()), photo);
    if (said != right) {
      if (at + 2 * kRecord > bytes.size()) break;
      const auto [next, behind] = record_at(bytes, at + kRecord);
      const bool photo_is_right = behind == next_mark(right, next);
      if (!photo_is_right && behind != next_mark(said, next)) break;
      if (!photo_is_right) {
        right = said;
        log::error(
            "{}: entry {} is damaged: which photo was deleted there is lost, and stores "
            "that have not heard of it yet will not",
            path_, size() + 1);
      }
    }
    take(photo, right);
  }
  return at;
}

void DeletionLog::take(const Digest& photo, uint64_t mark) {
  marks_.push_back(mark);
  photos_.push_back(photo);
  known_.insert(photo);
}

Status DeletionLog::add(std::span<const Digest> photos) {
  std::vector<Digest> fresh;
  std::set<Digest> seen;
  for (const Digest& photo : photos) {
    if (!has(photo) && seen.insert(photo).second) fresh.push_back(photo);
  }
  if (fresh.empty()) return {};
  std::string bytes;
  uint64_t mark = this->mark(size());
  for (const Digest& photo : fresh) {
    mark = next_mark(mark, photo);
    std::byte le[8];
    store_le<uint64_t>(le, mark);
    bytes.append(reinterpret_cast<const char*>(photo.data()), photo.size());
    bytes.append(reinterpret_cast<const char*>(le), sizeof(le));
  }
  // A file that is begun whole has its first line whatever a crash leaves of what comes after.
  const Status s = size() == 0 ? publish(fs_, path_, std::string(kMagic) + bytes) : append(bytes);
  if (!s.ok()) return s;
  for (const Digest& photo : fresh) take(photo, next_mark(this->mark(size()), photo));
  return {};
}

Status DeletionLog::append(std::string_view bytes) {
  const Result<std::unique_ptr<File>> file = fs_.open(path_, Fs::Mode::kAppend);
  if (!file.ok()) return file.status();
  // What an addition that failed has left, here or before a crash.
  const auto whole = static_cast<int64_t>(kMagic.size() + size() * kRecord);
  if (Status s = (*file)->truncate(whole); !s.ok()) return s;
  if (Status s = (*file)->append(std::as_bytes(std::span(bytes))); !s.ok()) {
    // Of several, some may stand there whole, and would be read at the next start.
    static_cast<void>((*file)->truncate(whole).ok());
    return s;
  }
  (*file)->sync();
  return {};
}

Status DeletionLog::forget_first(uint64_t n) {
  if (Status s = publish(fs_, forgotten_path_, checksummed({{"deletions", n}}, -1)); !s.ok()) {
    return s;
  }
  forgotten_ = n;
  return {};
}

}  // namespace ndtrain::tuner
