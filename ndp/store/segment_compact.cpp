// Giving back the space of what is dead, and of what is beyond the budget.
#include <vector>

#include "framework/core/log.h"
#include "ndp/store/segment_scan.h"
#include "ndp/store/segment_store.h"

namespace ndtrain::ndp {

Result<GcReport> SegmentStore::gc() {
  must_write();
  const std::lock_guard write_lock(write_mutex_);
  GcReport report{.bytes_before = used_bytes_};
  for (;;) {
    Result<int64_t> room = budget_.room(used_bytes_, 0);
    if (!room.ok()) return room.status();
    const auto victim = least_recently_used(groups_, nullptr);
    if (*room >= 0 || victim == groups_.end()) break;
    if (Status s = evict(Digest(victim->first)); !s.ok()) return s;
    ++report.groups_evicted;
  }
  const auto half_dead = [](const Segment& s) { return s.live * 2 < s.end; };
  if (Status s = compact_where(half_dead, report); !s.ok()) return s;
  report.bytes_after = used_bytes_;
  return report;
}

Result<GcReport> SegmentStore::compact() {
  must_write();
  const std::lock_guard write_lock(write_mutex_);
  GcReport report{.bytes_before = used_bytes_};
  const auto any_dead = [](const Segment& s) {
    return s.live + static_cast<int64_t>(kSegmentHeaderBytes) < s.end;
  };
  if (Status s = compact_where(any_dead, report); !s.ok()) return s;
  report.bytes_after = used_bytes_;
  return report;
}

Status SegmentStore::compact_where(bool (*wants)(const Segment&), GcReport& report) {
  for (auto it = groups_.begin(); it != groups_.end();) {
    SegmentGroup& group = *it->second;
    std::vector<uint32_t> numbers;
    {
      const std::shared_lock index_lock(index_mutex_);
      for (const auto& [number, segment] : group.segments) {
        if (wants(segment)) numbers.push_back(number);
      }
    }
    for (const uint32_t number : numbers) {
      if (Status s = compact_segment(it->first, group, number); !s.ok()) return s;
      ++report.segments_compacted;
    }
    const std::lock_guard index_lock(index_mutex_);
    it = group.segments.empty() ? groups_.erase(it) : std::next(it);
  }
  if (report.segments_compacted > 0 || report.groups_evicted > 0) {
    sync_all();
    write_index();
  }
  return {};
}

Status SegmentStore::compact_segment(const Digest& id, SegmentGroup& group, uint32_t number) {
  if (group.writer && group.segments.rbegin()->first == number) group.seal();
  int64_t live = 0;
  uint64_t salt = 0;
  {
    const std::shared_lock index_lock(index_mutex_);
    live = group.segments.at(number).live;
    salt = group.segments.at(number).salt;
  }
  Result<int64_t> room = budget_.room_on_volume(live);
  if (!room.ok()) return room.status();
  if (*room < live) {
    return {Code::kNoSpace, "store " + directory_ + ": no room to compact " + path_of(number)};
  }
  Result<std::shared_ptr<File>> file = readers_.get(number);
  if (!file.ok()) return file.status();
  Result<int64_t> end = scan_segment(
      **file, salt, kSegmentHeaderBytes, false, [&](const RecordHeader& header, int64_t offset) {
        return move_record(id, group, header,
                           {number, static_cast<uint32_t>(offset), header.length}, **file);
      });
  if (!end.ok()) return end.status();
  {
    // What the index still expects here has lost its header.
    const std::lock_guard index_lock(index_mutex_);
    std::vector<KeyTable::ShortKey> lost;
    if (group.segments.at(number).live > 0) {
      for (const KeyTable::Entry& entry : group.keys.entries()) {
        if (entry.at.segment == number) lost.push_back(entry.key);
      }
    }
    for (const KeyTable::ShortKey& key : lost) group.unpoint(key);
  }
  // The copies before the originals go, and one original after the other: a later one may hold the
  // tombstones of an earlier one.
  sync_all();
  if (Status s = delete_segment(group, number); !s.ok()) return s;
  sync_directory();
  return {};
}

Status SegmentStore::move_record(const Digest& id, SegmentGroup& group, const RecordHeader& header,
                                 const Location& from, File& file) {
  const KeyTable::ShortKey key = KeyTable::shorten(header.key);
  std::optional<Location> current;
  {
    const std::shared_lock index_lock(index_mutex_);
    current = group.keys.find(key);
  }
  if (header.kind == RecordKind::kRemove) {
    // Still needed while an older segment may hold what it removes. Moved behind a newer record of
    // the key it would remove that one.
    if (current || group.segments.begin()->first == from.segment) return {};
    return append(id, group, header, {}).status();
  }
  if (current != from) return {};
  std::vector<std::byte> payload(header.length);
  Status good = read_payload(file, header, from.offset, payload);
  if (!good.ok()) {
    if (good.code() != Code::kCorrupt) return good;
    log::warn("store: {}: {}; it is dropped", path_of(from.segment), good.message());
    const std::lock_guard index_lock(index_mutex_);
    group.unpoint(key);
    return {};
  }
  Result<Location> to = append(id, group, header, payload);
  if (!to.ok()) return to.status();
  const std::lock_guard index_lock(index_mutex_);
  if (group.keys.find(key) == current) group.point(key, *to);
  return {};
}

}  // namespace ndtrain::ndp
