#include "ndp/store/segment_groups.h"

namespace ndtrain::ndp {

void SegmentGroup::use(const LastUse& at) {
  used_seconds = at.seconds;
  used_order = at.order;
}

int64_t SegmentGroup::disk_bytes() const {
  int64_t bytes = 0;
  for (const auto& [number, segment] : segments) bytes += segment.end;
  return bytes;
}

int64_t SegmentGroup::live_bytes() const {
  int64_t bytes = 0;
  for (const auto& [number, segment] : segments) bytes += segment.live;
  return bytes;
}

void SegmentGroup::point(const KeyTable::ShortKey& key, const Location& at) {
  const std::optional<Location> old = keys.insert(key, at);
  if (old) segments.at(old->segment).live -= record_bytes(old->length);
  segments.at(at.segment).live += record_bytes(at.length);
}

void SegmentGroup::unpoint(const KeyTable::ShortKey& key) {
  const std::optional<Location> old = keys.erase(key);
  if (old) segments.at(old->segment).live -= record_bytes(old->length);
}

void SegmentGroup::seal() {
  if (dirty) writer->sync();
  writer.reset();
  dirty = false;
}

SegmentGroups::iterator least_recently_used(SegmentGroups& groups, const Digest* keep) {
  auto least = groups.end();
  for (auto it = groups.begin(); it != groups.end(); ++it) {
    if (keep && it->first == *keep) continue;
    if (least == groups.end() || it->second->used() < least->second->used()) least = it;
  }
  return least;
}

}  // namespace ndtrain::ndp
