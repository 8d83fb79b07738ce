// How a SegmentStore appends, makes room and becomes durable.
#include <algorithm>
#include <cstring>

#include "framework/core/log.h"
#include "ndp/store/segment_store.h"

namespace ndtrain::ndp {

Status SegmentStore::make_room(const Digest& keep, int64_t bytes) {
  Result<int64_t> room = budget_.room(used_bytes_, bytes);
  if (!room.ok()) return room.status();
  if (*room >= bytes) return {};
  const auto kept = groups_.find(keep);
  const int64_t others = used_bytes_ - (kept == groups_.end() ? 0 : kept->second->disk_bytes());
  if (*room + others >= bytes) {
    for (auto it = least_recently_used(groups_, &keep); it != groups_.end() && *room < bytes;
         it = least_recently_used(groups_, &keep)) {
      log::info("store {}: evicts group {} ({} bytes) for {}", directory_, to_hex(it->first),
                it->second->disk_bytes(), to_hex(keep));
      if (Status s = evict(Digest(it->first)); !s.ok()) return s;
      room = budget_.room(used_bytes_, bytes);
      if (!room.ok()) return room.status();
    }
  }
  if (*room >= bytes) return {};
  return {Code::kNoSpace, "store " + directory_ + ": no room for " + std::to_string(bytes) +
                              " bytes: " + std::to_string(used_bytes_) + " of a budget of " +
                              std::to_string(budget_.bytes()) +
                              " are used, and the volume's last 5 % stay free"};
}

Status SegmentStore::evict(const Digest& id) {
  std::unique_ptr<SegmentGroup> group;
  {
    const std::lock_guard index_lock(index_mutex_);
    const auto it = groups_.find(id);
    group = std::move(it->second);
    groups_.erase(it);
  }
  group->writer.reset();
  // One that cannot be deleted is forgotten with those after it, which may hold its tombstones: the
  // next open finds them all.
  Status s;
  while (s.ok() && !group->segments.empty()) {
    s = delete_segment(*group, group->segments.begin()->first);
  }
  sync_directory();
  return s;
}

// The oldest first, as later ones hold tombstones of what is in earlier ones. One that cannot be
// deleted stays in the group.
Status SegmentStore::delete_segment(SegmentGroup& group, uint32_t number) {
  readers_.forget(number);
  if (Status s = fs_.remove(path_of(number)); !s.ok()) return s;
  const std::lock_guard index_lock(index_mutex_);
  used_bytes_ -= group.segments.at(number).end;
  group.segments.erase(number);
  budget_.freed();
  return {};
}

Result<uint32_t> SegmentStore::writable_segment(const Digest& id, SegmentGroup& group,
                                                int64_t bytes) {
  if (group.writer) {
    const auto& [number, segment] = *group.segments.rbegin();
    const bool empty = segment.end == static_cast<int64_t>(kSegmentHeaderBytes);
    if (empty || segment.end + bytes <= options_.segment_bytes) return number;
    group.seal();
  }
  if (next_number_ == UINT32_MAX) {
    return Status(Code::kNoSpace, "store " + directory_ + ": has used up its segment numbers");
  }
  const uint32_t number = next_number_;
  const int64_t stamp[] = {number, clock_.unix_seconds(), clock_.monotonic().count()};
  const SegmentHeader header{
      .number = number, .salt = xxh3(stamp, sizeof stamp, xxh3(id.data(), id.size())), .group = id};
  Result<std::unique_ptr<File>> file = fs_.open(path_of(number), Fs::Mode::kCreate);
  if (!file.ok()) return file.status();
  ++next_number_;
  if (Status s = (*file)->append(encode(header)); !s.ok()) {
    static_cast<void>(fs_.remove(path_of(number)).ok());  // else the next open does it
    return s;
  }
  directory_dirty_ = true;
  group.writer = std::move(*file);
  group.dirty = true;
  budget_.wrote(kSegmentHeaderBytes);
  const std::lock_guard index_lock(index_mutex_);
  group.segments[number] = {.salt = header.salt, .end = kSegmentHeaderBytes};
  used_bytes_ += kSegmentHeaderBytes;
  return number;
}

Result<Location> SegmentStore::append(const Digest& id, SegmentGroup& group,
                                      const RecordHeader& header,
                                      std::span<const std::byte> payload) {
  const int64_t bytes = record_bytes(header.length);
  Result<uint32_t> number = writable_segment(id, group, bytes);
  if (!number.ok()) return number.status();
  Segment& segment = group.segments.at(*number);
  const auto encoded = encode(header, segment.salt);
  std::vector<std::byte> record(static_cast<size_t>(bytes));
  std::copy(encoded.begin(), encoded.end(), record.begin());
  std::copy(payload.begin(), payload.end(), record.begin() + kRecordHeaderBytes);
  group.dirty = true;
  if (Status s = group.writer->append(record); !s.ok()) {
    // The part that was written must not stand before the next record.
    if (!group.writer->truncate(segment.end).ok()) {
      const Result<int64_t> size = group.writer->size();
      const std::lock_guard index_lock(index_mutex_);
      const int64_t rest = size.ok() ? *size - segment.end : 0;
      segment.end += rest;
      used_bytes_ += rest;
      group.seal();
    }
    budget_.freed();
    return s;
  }
  budget_.wrote(bytes);
  since_index_ += bytes;
  const std::lock_guard index_lock(index_mutex_);
  const Location at{*number, static_cast<uint32_t>(segment.end), header.length};
  segment.end += bytes;
  used_bytes_ += bytes;
  return at;
}

void SegmentStore::sync_directory() {
  fs_.sync_directory(directory_);
  directory_dirty_ = false;
}

void SegmentStore::sync_all() {
  for (auto& [id, group] : groups_) {
    if (!group->dirty) continue;
    group->writer->sync();
    group->dirty = false;
  }
  if (directory_dirty_) sync_directory();
}

Status SegmentStore::flush() {
  must_write();
  const std::lock_guard write_lock(write_mutex_);
  sync_all();
  size_t records = 0;
  {
    const std::shared_lock index_lock(index_mutex_);
    for (const auto& [id, group] : groups_) records += group->keys.size();
  }
  // Four times its own size: a large index must not be most of what is written.
  const int64_t due = 4 * kIndexEntryBytes * static_cast<int64_t>(records);
  if (since_index_ >= std::max(options_.index_every_bytes, due)) write_index();
  return {};
}

// The index is a hint, so a failure to write it is none of the caller's business.
void SegmentStore::write_index() {
  const std::shared_lock index_lock(index_mutex_);
  Result<IndexWriter> writer = IndexWriter::start(fs_, join(directory_, "index"), next_number_);
  Status s = writer.status();
  for (auto it = groups_.begin(); s.ok() && it != groups_.end(); ++it) {
    IndexedGroup indexed{.id = it->first, .used = it->second->used()};
    for (const auto& [number, segment] : it->second->segments) {
      indexed.segments.push_back({number, segment.salt, segment.end});
    }
    s = writer->add(indexed, it->second->keys);
  }
  if (s.ok()) s = writer->commit();
  if (s.ok()) {
    since_index_ = 0;
  } else {
    log::warn("store {}: goes without an index: {}", directory_, s.message());
  }
}

Status SegmentStore::close() {
  if (!writes_) return {};
  const std::lock_guard write_lock(write_mutex_);
  sync_all();
  write_index();
  return {};
}

Status SegmentStore::stop_writing() {
  if (Status s = close(); !s.ok()) return s;
  const std::lock_guard write_lock(write_mutex_);
  for (auto& [id, group] : groups_) group->writer.reset();
  writes_ = false;
  lock_.reset();
  return {};
}

}  // namespace ndtrain::ndp
