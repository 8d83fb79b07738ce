#include "ndp/store/segment_index.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "framework/core/coding.h"
#include "ndp/store/segment_format.h"

namespace ndtrain::ndp {
namespace {

constexpr char kMagic[8] = {'N', 'D', 'T', 'I', 'D', 'X', '\r', '\n'};
constexpr uint32_t kVersion = 1;
constexpr size_t kFileHeaderBytes = 16, kBlockHeaderBytes = 16;
constexpr size_t kGroupBytes = 48, kCoveredBytes = 20, kEntryBytes = kIndexEntryBytes;
constexpr size_t kEntriesPerBlock = 1 << 14;
constexpr uint32_t kMaxBlockBytes = 1 << 26;
enum Type : uint32_t { kGroup = 1, kEntries = 2, kEnd = 3 };

Status corrupt(const std::string& path, const char* what) {
  return {Code::kCorrupt, path + ": " + what};
}

// The header's number is in every block's checksum.
uint64_t seed_of(uint32_t type, uint32_t next_number) { return uint64_t{next_number} << 32 | type; }

class IndexReader {
 public:
  IndexReader(File& file, const std::string& path) : file_(file), path_(path) {}

  Result<SegmentIndex> read() {
    std::array<std::byte, kFileHeaderBytes> header;
    if (Status s = read_exactly(header); !s.ok()) return s;
    if (std::memcmp(header.data(), kMagic, sizeof kMagic) != 0) {
      return corrupt(path_, "is no segment index");
    }
    if (load_le<uint32_t>(header.data() + 8) != kVersion) {
      return Status(Code::kUnsupported, path_ + ": is of another version");
    }
    index_.next_number = load_le<uint32_t>(header.data() + 12);
    for (;;) {
      uint32_t type = 0;
      if (Status s = next_block(type); !s.ok()) return s;
      if (type == kEnd) return finish();
      const bool good = type == kGroup ? read_group() : type == kEntries ? read_entries() : false;
      if (!good) return corrupt(path_, "contradicts itself");
    }
  }

 private:
  Status read_exactly(std::span<std::byte> to) {
    Result<size_t> got = file_.read_at(at_, to);
    if (!got.ok()) return got.status();
    if (*got != to.size()) return corrupt(path_, "ends early");
    at_ += static_cast<int64_t>(to.size());
    return {};
  }

  Status next_block(uint32_t& type) {
    std::array<std::byte, kBlockHeaderBytes> header;
    if (Status s = read_exactly(header); !s.ok()) return s;
    const auto length = load_le<uint32_t>(header.data());
    type = load_le<uint32_t>(header.data() + 4);
    if (length > kMaxBlockBytes) return corrupt(path_, "has an oversized block");
    block_.resize(length);
    if (Status s = read_exactly(block_); !s.ok()) return s;
    const auto checksum = load_le<uint64_t>(header.data() + 8);
    const uint64_t now = xxh3(block_.data(), length, seed_of(type, index_.next_number));
    // Earlier programs left the header out.
    if (checksum != now && checksum != xxh3(block_.data(), length, type)) {
      return corrupt(path_, "has a wrong checksum");
    }
    return {};
  }

  bool read_group() {
    if (block_.size() < kGroupBytes || (block_.size() - kGroupBytes) % kCoveredBytes != 0) {
      return false;
    }
    IndexedGroup group;
    std::memcpy(group.id.data(), block_.data(), group.id.size());
    group.used = {load_le<int64_t>(block_.data() + 32), load_le<uint64_t>(block_.data() + 40)};
    ends_.clear();
    for (size_t i = kGroupBytes; i < block_.size(); i += kCoveredBytes) {
      const std::byte* from = block_.data() + i;
      group.segments.push_back(
          {load_le<uint32_t>(from), load_le<uint64_t>(from + 4), load_le<int64_t>(from + 12)});
      ends_[group.segments.back().number] = group.segments.back().end;
    }
    index_.groups.push_back(std::move(group));
    index_.keys.emplace_back();
    return true;
  }

  bool read_entries() {
    if (index_.groups.empty() || block_.size() % kEntryBytes != 0) return false;
    for (size_t i = 0; i < block_.size(); i += kEntryBytes) {
      const std::byte* from = block_.data() + i;
      KeyTable::ShortKey key;
      std::memcpy(key.data(), from, key.size());
      const Location at{load_le<uint32_t>(from + 16), load_le<uint32_t>(from + 20),
                        load_le<uint32_t>(from + 24)};
      const auto end = ends_.find(at.segment);
      if (end == ends_.end() || at.offset + record_bytes(at.length) > end->second) return false;
      if (index_.keys.back().insert(key, at)) return false;
      ++records_;
    }
    return true;
  }

  Result<SegmentIndex> finish() {
    if (block_.size() != 8 || load_le<uint64_t>(block_.data()) != records_) {
      return corrupt(path_, "contradicts itself");
    }
    return std::move(index_);
  }

  File& file_;
  const std::string& path_;
  int64_t at_ = 0;
  uint64_t records_ = 0;
  std::vector<std::byte> block_;
  std::map<uint32_t, int64_t> ends_;
  SegmentIndex index_;
};

}  // namespace

Result<IndexWriter> IndexWriter::start(Fs& fs, const std::string& path, uint32_t next_number) {
  Result<Publisher> publisher = Publisher::start(fs, path);
  if (!publisher.ok()) return publisher.status();
  std::array<std::byte, kFileHeaderBytes> header;
  std::memcpy(header.data(), kMagic, sizeof kMagic);
  store_le(header.data() + 8, kVersion);
  store_le(header.data() + 12, next_number);
  if (Status s = publisher->write(header); !s.ok()) return s;
  return IndexWriter(std::move(*publisher), next_number);
}

Status IndexWriter::block(uint32_t type, const std::vector<std::byte>& bytes) {
  std::vector<std::byte> block(kBlockHeaderBytes + bytes.size());
  store_le(block.data(), static_cast<uint32_t>(bytes.size()));
  store_le(block.data() + 4, type);
  store_le(block.data() + 8, xxh3(bytes.data(), bytes.size(), seed_of(type, next_number_)));
  std::copy(bytes.begin(), bytes.end(), block.begin() + kBlockHeaderBytes);
  return publisher_.write(block);
}

Status IndexWriter::add(const IndexedGroup& group, const KeyTable& keys) {
  std::vector<std::byte> bytes(kGroupBytes + kCoveredBytes * group.segments.size());
  std::memcpy(bytes.data(), group.id.data(), group.id.size());
  store_le(bytes.data() + 32, group.used.seconds);
  store_le(bytes.data() + 40, group.used.order);
  std::byte* to = bytes.data() + kGroupBytes;
  for (const CoveredSegment& segment : group.segments) {
    store_le(to, segment.number);
    store_le(to + 4, segment.salt);
    store_le(to + 12, segment.end);
    to += kCoveredBytes;
  }
  if (Status s = block(kGroup, bytes); !s.ok()) return s;

  for (size_t i = 0; i < keys.size();) {
    const size_t n = std::min(kEntriesPerBlock, keys.size() - i);
    bytes.resize(n * kEntryBytes);
    to = bytes.data();
    for (const size_t end = i + n; i < end; ++i, to += kEntryBytes) {
      const KeyTable::Entry& entry = keys.entries()[i];
      std::memcpy(to, entry.key.data(), entry.key.size());
      store_le(to + 16, entry.at.segment);
      store_le(to + 20, entry.at.offset);
      store_le(to + 24, entry.at.length);
    }
    if (Status s = block(kEntries, bytes); !s.ok()) return s;
  }
  records_ += keys.size();
  return {};
}

Status IndexWriter::commit() {
  std::vector<std::byte> bytes(8);
  store_le(bytes.data(), records_);
  if (Status s = block(kEnd, bytes); !s.ok()) return s;
  return publisher_.commit();
}

Result<SegmentIndex> read_index(Fs& fs, const std::string& path) {
  Result<std::unique_ptr<File>> file = fs.open(path, Fs::Mode::kRead);
  if (!file.ok()) return file.status();
  return IndexReader(**file, path).read();
}

}  // namespace ndtrain::ndp
