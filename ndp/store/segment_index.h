// The index file: what is in the segments up to some length of each, so that opening need not read
// them. A hint: what it says is checked against the segments, and what it lacks is found by
// reading.
#pragma once

#include <vector>

#include "framework/core/fs.h"
#include "framework/core/publish.h"
#include "ndp/store/key_table.h"

namespace ndtrain::ndp {

struct CoveredSegment {
  uint32_t number = 0;
  uint64_t salt = 0;
  int64_t end = 0;  // records that begin before this are in the index
};

// When a group was used: seconds, then the order of uses within the store's life.
struct LastUse {
  int64_t seconds = 0;
  uint64_t order = 0;
  auto operator<=>(const LastUse&) const = default;
};

struct IndexedGroup {
  Digest id{};
  LastUse used;
  std::vector<CoveredSegment> segments;
};

class IndexWriter {
 public:
  // `next_number`: no segment ever had this number or a higher one.
  static Result<IndexWriter> start(Fs& fs, const std::string& path, uint32_t next_number);
  Status add(const IndexedGroup& group, const KeyTable& keys);
  // Durable and in place, or a Status.
  Status commit();

 private:
  IndexWriter(Publisher publisher, uint32_t next_number)
      : publisher_(std::move(publisher)), next_number_(next_number) {}
  Status block(uint32_t type, const std::vector<std::byte>& bytes);

  Publisher publisher_;
  uint32_t next_number_;
  uint64_t records_ = 0;
};

struct SegmentIndex {
  uint32_t next_number = 0;
  std::vector<IndexedGroup> groups;
  std::vector<KeyTable> keys;  // beside groups
};

// kNotFound, kCorrupt (a byte is wrong, or it ends early), kUnsupported (another version).
Result<SegmentIndex> read_index(Fs& fs, const std::string& path);

inline constexpr int64_t kIndexEntryBytes = 28;

}  // namespace ndtrain::ndp
