// What a SegmentStore knows of its segments: the groups, in which segments their records lie, and
// where each is. The store says who may look at it and change it when.
#pragma once

#include <atomic>
#include <map>
#include <memory>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "ndp/store/key_table.h"
#include "ndp/store/segment_format.h"
#include "ndp/store/segment_index.h"

namespace ndtrain::ndp {

struct Segment {
  uint64_t salt = 0;
  int64_t end = 0;   // bytes of the file
  int64_t live = 0;  // bytes of records that the index points at
};

struct SegmentGroup {
  KeyTable keys;
  std::map<uint32_t, Segment> segments;
  std::atomic<int64_t> used_seconds = 0;
  std::atomic<uint64_t> used_order = 0;
  // The last segment, while it takes records.
  std::unique_ptr<File> writer;
  bool dirty = false;  // the writer has bytes that no fsync has seen

  LastUse used() const { return {used_seconds, used_order}; }
  void use(const LastUse& at);
  int64_t disk_bytes() const;
  int64_t live_bytes() const;

  // A record of this key is there from now on, or none.
  void point(const KeyTable::ShortKey& key, const Location& at);
  void unpoint(const KeyTable::ShortKey& key);

  // The last segment takes no more records; it is durable. Only the last segment of a
  // group may hold bytes that a crash can take: recovery relies on it.
  void seal();
};

using SegmentGroups = std::map<Digest, std::unique_ptr<SegmentGroup>>;

// Of all but `keep`, if there is one; end() when there is none.
SegmentGroups::iterator least_recently_used(SegmentGroups& groups, const Digest* keep);

}  // namespace ndtrain::ndp
