#include "ndp/pipestore/upload_format.h"

#include <algorithm>
#include <optional>

#include "framework/core/coding.h"
#include "framework/core/hash.h"

namespace ndtrain::ndp::upload_format {
namespace {

constexpr std::string_view kFile = "NDTUPL2\n", kFormerFile = "NDTUPL1\n", kRecord = "NUPL";
constexpr size_t kCopy = 24, kChecked = 16;  // of the header; of it, and of a record's head
constexpr size_t kFormerHead = 12;
constexpr int64_t kReadAtOnce = int64_t{4} << 20;
// A crash may leave zeros where bytes were to come. No line ends in so many.
constexpr size_t kZeros = 8;

template <typename T>
T number(std::string_view bytes, size_t at) {
  return load_le<T>(reinterpret_cast<const std::byte*>(bytes.data()) + at);
}

template <typename T>
void append_number(std::string& to, T value) {
  std::byte bytes[sizeof(T)];
  store_le<T>(bytes, value);
  to.append(reinterpret_cast<const char*>(bytes), sizeof(T));
}

bool is_copy(std::string_view bytes) {
  return bytes.starts_with(kFile) &&
         number<uint64_t>(bytes, kChecked) == xxh3(bytes.data(), kChecked);
}

// A file of which a window is in memory.
class FileWindow {
 public:
  FileWindow(File& file, int64_t size) : file_(file), size_(size) {}

  // Fewer only at the end of the file. Good until the next call.
  Result<std::string_view> at(int64_t offset, int64_t n) {
    n = std::min(n, size_ - offset);
    if (offset < begin_ || offset + n > begin_ + static_cast<int64_t>(window_.size())) {
      window_.resize(static_cast<size_t>(std::max(n, std::min(kReadAtOnce, size_ - offset))));
      begin_ = offset;
      const auto got = file_.read_at(offset, std::as_writable_bytes(std::span(window_)));
      if (!got.ok()) return got.status();
      window_.resize(*got);
    }
    return std::string_view(window_).substr(static_cast<size_t>(offset - begin_),
                                            static_cast<size_t>(n));
  }
  int64_t size() const { return size_; }

 private:
  File& file_;
  const int64_t size_;
  std::string window_;
  int64_t begin_ = 0;
};

// What stands at an offset.
struct AtOffset {
  enum class Kind { kGood, kBadLine, kCutShort, kNothing } kind = Kind::kNothing;
  std::string_view line;  // of a good one
  int64_t bytes = 0;      // with its head; of a good one and of one whose line is bad
};

Result<AtOffset> look(FileWindow& bytes, const LogHeader& header, int64_t at) {
  const bool former = header.version == 1;
  const size_t head_bytes = former ? kFormerHead : kHead;
  const Result<std::string_view> head = bytes.at(at, static_cast<int64_t>(head_bytes));
  if (!head.ok()) return head.status();
  if (head->size() < head_bytes) return AtOffset{.kind = AtOffset::Kind::kCutShort};
  const auto n = number<uint32_t>(*head, former ? 8 : 4);
  const auto checksum = number<uint64_t>(*head, former ? 0 : 8);
  const bool sound =
      former || (head->starts_with(kRecord) &&
                 number<uint64_t>(*head, kChecked) == xxh3(head->data(), kChecked, header.salt));
  if (!sound || n > kLongestLine) return AtOffset();
  const int64_t all = static_cast<int64_t>(head_bytes) + n;
  const Result<std::string_view> whole = bytes.at(at, all);
  if (!whole.ok()) return whole.status();
  if (static_cast<int64_t>(whole->size()) < all) return AtOffset{.kind = AtOffset::Kind::kCutShort};
  const std::string_view line = whole->substr(head_bytes);
  if (xxh3(line.data(), n, former ? 0 : header.salt) == checksum) {
    return AtOffset{AtOffset::Kind::kGood, line, all};
  }
  // Without a checksum of its own a head says nothing of where the next record is.
  return former ? AtOffset() : AtOffset{AtOffset::Kind::kBadLine, {}, all};
}

// The next good record after `at`, or the end.
Result<int64_t> next_record(FileWindow& bytes, const LogHeader& header, int64_t at) {
  for (++at; at < bytes.size(); ++at) {
    if (header.version > 1) {
      const Result<std::string_view> part = bytes.at(at, kReadAtOnce);
      if (!part.ok()) return part.status();
      const size_t record = part->find(kRecord);
      if (record == std::string_view::npos) {
        at += std::max<int64_t>(0, static_cast<int64_t>(part->size() - kRecord.size()));
        continue;
      }
      at += static_cast<int64_t>(record);
    }
    const Result<AtOffset> found = look(bytes, header, at);
    if (!found.ok()) return found.status();
    if (found->kind == AtOffset::Kind::kGood || found->kind == AtOffset::Kind::kBadLine) return at;
  }
  return bytes.size();
}

Result<bool> ends_in_zeros(FileWindow& bytes, int64_t from) {
  const int64_t n = std::min<int64_t>(kZeros, bytes.size() - from);
  const Result<std::string_view> last = bytes.at(bytes.size() - n, n);
  if (!last.ok()) return last.status();
  return last->size() == kZeros && last->find_first_not_of('\0') == std::string_view::npos;
}

}  // namespace

std::string header(uint64_t salt) {
  std::string copy(kFile);
  append_number(copy, salt);
  append_number(copy, xxh3(copy.data(), copy.size()));
  return copy + copy;
}

std::string record(uint64_t salt, std::string_view line) {
  std::string out(kRecord);
  append_number(out, static_cast<uint32_t>(line.size()));
  append_number(out, xxh3(line.data(), line.size(), salt));
  append_number(out, xxh3(out.data(), out.size(), salt));
  return out.append(line);
}

bool is_record(std::string_view bytes, uint64_t salt) {
  return bytes.size() >= kHead && record(salt, bytes.substr(kHead)) == bytes;
}

Result<LogHeader> read_header(File& file) {
  std::string bytes(2 * kCopy, '\0');
  const Result<size_t> got = file.read_at(0, std::as_writable_bytes(std::span(bytes)));
  if (!got.ok()) return got.status();
  bytes.resize(*got);
  bytes.resize(2 * kCopy, '\0');
  const std::string_view first = std::string_view(bytes).substr(0, kCopy),
                         second = std::string_view(bytes).substr(kCopy);
  if (is_copy(first) || is_copy(second)) {
    return LogHeader{.salt = number<uint64_t>(is_copy(first) ? first : second, kFile.size()),
                     .whole = first == second};
  }
  if (!first.starts_with(kFormerFile)) return Status(Code::kCorrupt, "is no log of uploads");
  return LogHeader{.version = 1, .bytes = static_cast<int64_t>(kFormerFile.size())};
}

Result<LogWalk> walk(File& file, const LogHeader& header, int64_t size, const LineVisitor& visit) {
  FileWindow bytes(file, size);
  LogWalk walk{.end = header.bytes};
  int64_t bad = -1;  // where what is no record began
  for (int64_t at = header.bytes; at < size;) {
    const Result<AtOffset> found = look(bytes, header, at);
    if (!found.ok()) return found.status();
    const int64_t head = found->bytes - static_cast<int64_t>(found->line.size());
    if (found->kind == AtOffset::Kind::kGood && visit(found->line, at + head)) {
      if (bad >= 0) walk.damage.push_back({bad, at - bad});
      bad = -1;
      walk.end = at += found->bytes;
      continue;
    }
    if (found->bytes > 0) {
      if (bad < 0) bad = at;
      at += found->bytes;
      continue;
    }
    const Result<int64_t> next = next_record(bytes, header, at);
    if (!next.ok()) return next.status();
    if (found->kind == AtOffset::Kind::kCutShort && *next == size) {  // the last append did not end
      walk.torn = size - at;
      size = at;
      break;
    }
    if (bad < 0) bad = at;
    at = *next;
  }
  if (bad < 0) return walk;
  const Result<bool> zeros = walk.torn > 0 ? false : ends_in_zeros(bytes, bad);
  if (!zeros.ok()) return zeros.status();
  if (*zeros) {
    walk.torn = size - bad;
  } else {
    walk.damage.push_back({bad, size - bad});
  }
  return walk;
}

}  // namespace ndtrain::ndp::upload_format
