#include "tuner/jobs/listed_digests.h"

#include <algorithm>
#include <cstring>

namespace ndtrain::tuner {
namespace {

// Reads CBOR (RFC 8949) item by item; fails where it is none of what the list is made of.
class CborReader {
 public:
  explicit CborReader(std::string_view bytes) : bytes_(bytes) {}

  struct Head {
    uint8_t major = 0;
    uint64_t value = 0;
  };
  std::optional<Head> head() {
    if (at_ >= bytes_.size()) return {};
    const auto first = static_cast<uint8_t>(bytes_[at_++]);
    Head h{static_cast<uint8_t>(first >> 5), static_cast<uint64_t>(first & 31)};
    if (h.value < 24) return h;
    if (h.value > 27) return {};
    const size_t n = size_t{1} << (h.value - 24);
    if (n > bytes_.size() - at_) return {};
    h.value = 0;
    for (size_t i = 0; i < n; ++i) h.value = h.value << 8 | static_cast<uint8_t>(bytes_[at_++]);
    return h;
  }
  std::optional<std::string_view> take(uint64_t n) {
    if (n > bytes_.size() - at_) return {};
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }
  // A number, a string, or an array of these.
  bool skip(bool nested = false) {
    const auto h = head();
    if (!h) return false;
    if (h->major <= 1) return true;
    if (h->major <= 3) return take(h->value).has_value();
    if (h->major != 4 || nested) return false;
    for (uint64_t i = 0; i < h->value; ++i) {
      if (!skip(true)) return false;
    }
    return true;
  }
  size_t at() const { return at_; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace

std::optional<ListedDigests> ListedDigests::find(std::string_view list, const FileInfo& file) {
  CborReader in(list);
  const auto map = in.head();
  if (!map || map->major != 5) return {};
  for (uint64_t i = 0; i < map->value; ++i) {
    const auto text = in.head();
    if (!text || text->major != 3) return {};
    const auto key = in.take(text->value);
    if (!key) return {};
    if (key != "digests") {
      if (!in.skip()) return {};
      continue;
    }
    const auto blob = in.head();
    if (!blob || blob->major != 2 || blob->value % sizeof(Digest) != 0) return {};
    const size_t offset = in.at();
    const auto digests = in.take(blob->value);
    if (!digests) return {};
    for (size_t at = sizeof(Digest); at < digests->size(); at += sizeof(Digest)) {
      const char* const d = digests->data() + at;
      if (std::memcmp(d - sizeof(Digest), d, sizeof(Digest)) >= 0) return {};
    }
    return ListedDigests(file, static_cast<int64_t>(offset), blob->value / sizeof(Digest));
  }
  return {};
}

bool ListedDigests::are_in(const FileInfo& file) const {
  return file.size == file_.size && file.mtime_ns == file_.mtime_ns && file.inode == file_.inode;
}

Result<bool> ListedDigests::has_any(Fs& fs, const std::string& path,
                                    const std::set<Digest>& photos) const {
  const auto file = fs.open(path, Fs::Mode::kRead);
  if (!file.ok()) return file.status();
  uint64_t begin = 0;  // photos come in byte order, too
  for (const Digest& photo : photos) {
    for (uint64_t end = count_; begin < end;) {
      const uint64_t middle = begin + (end - begin) / 2;
      Digest there{};
      const auto n = (*file)->read_at(offset_ + static_cast<int64_t>(middle * sizeof(Digest)),
                                      std::as_writable_bytes(std::span(there)));
      if (!n.ok()) return n.status();
      if (*n != sizeof(Digest)) return Status(Code::kCorrupt, path + ": it ends early");
      if (there == photo) return true;
      there < photo ? begin = middle + 1 : end = middle;
    }
  }
  return false;
}

}  // namespace ndtrain::tuner
