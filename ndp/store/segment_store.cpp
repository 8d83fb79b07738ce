#include "ndp/store/segment_store.h"

#include <algorithm>
#include <cstring>

#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "ndp/store/segment_scan.h"

namespace ndtrain {
namespace {

std::string described(const Digest& group, const Digest& key) {
  return to_hex(key).substr(0, 16) + " of group " + to_hex(group).substr(0, 16);
}

}  // namespace

int64_t SegmentStore::Group::disk_bytes() const {
  int64_t bytes = 0;
  for (const auto& [number, segment] : segments) bytes += segment.end;
  return bytes;
}

int64_t SegmentStore::Group::live_bytes() const {
  int64_t bytes = 0;
  for (const auto& [number, segment] : segments) bytes += segment.live;
  return bytes;
}

SegmentStore::SegmentStore(Fs& fs, const Clock& clock, std::string directory,
                           const SegmentOptions& options, DiskBudget budget)
    : fs_(fs),
      clock_(clock),
      directory_(directory),
      options_(options),
      budget_(std::move(budget)),
      readers_(fs, std::move(directory)) {}

SegmentStore::~SegmentStore() = default;

Status SegmentStore::put(const Digest& group, const Digest& key, const RecordMeta& meta,
                         std::span<const std::byte> payload) {
  if (payload.size() > limits::kRecord - kRecordHeaderBytes) {
    return {Code::kTooLarge, "store: a record of " + std::to_string(payload.size()) +
                                 " bytes is beyond the limit of " +
                                 std::to_string(limits::kRecord)};
  }
  must_write();
  const RecordHeader header{.kind = RecordKind::kPut,
                            .meta = meta,
                            .length = static_cast<uint32_t>(payload.size()),
                            .key = key,
                            .payload_xxh3 = xxh3(payload.data(), payload.size())};
  const std::lock_guard write_lock(write_mutex_);
  // A new group's first segment has a header too.
  const int64_t bytes = record_bytes(header.length) + static_cast<int64_t>(kSegmentHeaderBytes);
  if (Status s = make_room(group, bytes); !s.ok()) return s;
  if (!groups_.contains(group)) {
    const std::lock_guard index_lock(index_mutex_);
    groups_.emplace(group, std::make_unique<Group>());
  }
  Group& g = *groups_.at(group);
  touch(g);
  Result<Location> at = append(group, g, header, payload);
  if (!at.ok()) return at.status();
  const std::lock_guard index_lock(index_mutex_);
  point(g, KeyTable::shorten(key), *at);
  return {};
}

Status SegmentStore::remove(const Digest& group, const Digest& key) {
  must_write();
  const std::lock_guard write_lock(write_mutex_);
  const auto it = groups_.find(group);
  if (it == groups_.end()) return {};
  Group& g = *it->second;
  const KeyTable::ShortKey short_key = KeyTable::shorten(key);
  {
    const std::shared_lock index_lock(index_mutex_);
    if (!g.keys.find(short_key)) return {};
  }
  const RecordHeader tombstone{
      .kind = RecordKind::kRemove, .key = key, .payload_xxh3 = xxh3(nullptr, 0)};
  Result<Location> at = append(group, g, tombstone, {});
  if (!at.ok()) return at.status();
  const std::lock_guard index_lock(index_mutex_);
  unpoint(g, short_key);
  return {};
}

Status SegmentStore::remove_group(const Digest& group) {
  must_write();
  const std::lock_guard write_lock(write_mutex_);
  return groups_.contains(group) ? evict(group) : Status();
}

void SegmentStore::must_write() const {
  if (!writes_) throw Error("SegmentStore: ", directory_, " is open for reading alone");
}

void SegmentStore::pin(const Digest& group) {
  std::vector<uint32_t> numbers;
  {
    const std::shared_lock lock(index_mutex_);
    const auto it = groups_.find(group);
    if (it == groups_.end()) return;
    for (const auto& [number, segment] : it->second->segments) numbers.push_back(number);
  }
  readers_.keep_open(numbers);
}

bool SegmentStore::contains(const Digest& group, const Digest& key) const {
  const std::shared_lock lock(index_mutex_);
  const auto it = groups_.find(group);
  return it != groups_.end() && it->second->keys.find(KeyTable::shorten(key)).has_value();
}

Result<Found> SegmentStore::get(const Digest& group, const Digest& key, std::span<std::byte> to) {
  Result<Hit> hit = locate(group, key);
  if (!hit.ok()) return hit.status();
  if (hit->at.length > to.size()) {
    return Status(Code::kTooLarge, "store: " + described(group, key) + " has " +
                                       std::to_string(hit->at.length) + " bytes, the buffer " +
                                       std::to_string(to.size()));
  }
  return read(*hit, group, key, to.first(hit->at.length));
}

Result<Found> SegmentStore::get(const Digest& group, const Digest& key,
                                std::vector<std::byte>& to) {
  Result<Hit> hit = locate(group, key);
  if (!hit.ok()) return hit.status();
  to.resize(hit->at.length);
  return read(*hit, group, key, to);
}

Result<SegmentStore::Hit> SegmentStore::locate(const Digest& group, const Digest& key) {
  const std::shared_lock lock(index_mutex_);
  const auto it = groups_.find(group);
  const auto at =
      it == groups_.end() ? std::nullopt : it->second->keys.find(KeyTable::shorten(key));
  if (!at) return Status(Code::kNotFound, "store: " + described(group, key) + " is not there");
  touch(*it->second);
  // Opened under the lock: a segment with an index entry is not deleted before the entry is gone.
  Result<std::shared_ptr<File>> file = readers_.get(at->segment);
  if (!file.ok()) return file.status();
  return Hit{*at, it->second->segments.at(at->segment).salt, std::move(*file)};
}

Result<Found> SegmentStore::find(const Digest& group, const Digest& key) {
  const Result<Hit> hit = locate(group, key);
  if (!hit.ok()) return hit.status();
  const Result<RecordHeader> header = read_header(*hit, group, key);
  if (!header.ok()) return header.status();
  return Found{header->meta, header->length};
}

Result<RecordHeader> SegmentStore::read_header(const Hit& hit, const Digest& group,
                                               const Digest& key) {
  std::array<std::byte, kRecordHeaderBytes> bytes;
  Result<size_t> got = hit.file->read_at(hit.at.offset, bytes);
  if (!got.ok()) return got.status();
  const auto header = decode_record_header({bytes.data(), *got}, hit.salt);
  if (!header || header->kind != RecordKind::kPut || header->length != hit.at.length) {
    return drop(group, key, hit.at, "wrong record header");
  }
  if (header->key != key) {
    return Status(Code::kNotFound, "store: " + described(group, key) + " is not there");
  }
  return *header;
}

Result<Found> SegmentStore::read(const Hit& hit, const Digest& group, const Digest& key,
                                 std::span<std::byte> to) {
  const Result<RecordHeader> header = read_header(hit, group, key);
  if (!header.ok()) return header.status();
  Status s = read_payload(*hit.file, *header, hit.at.offset, to);
  if (s.code() == Code::kCorrupt) return drop(group, key, hit.at, s.message());
  if (!s.ok()) return s;
  return Found{header->meta, to.size()};
}

Status SegmentStore::drop(const Digest& group, const Digest& key, const Location& at,
                          const std::string& why) {
  const std::lock_guard lock(index_mutex_);
  const auto it = groups_.find(group);
  const KeyTable::ShortKey short_key = KeyTable::shorten(key);
  if (it != groups_.end() && it->second->keys.find(short_key) == at) {
    unpoint(*it->second, short_key);
  }
  return {Code::kCorrupt, "store: " + described(group, key) + " in " + path_of(at.segment) + ": " +
                              why + "; it is dropped"};
}

std::vector<GroupInfo> SegmentStore::groups() const {
  const std::shared_lock lock(index_mutex_);
  std::vector<std::pair<LastUse, GroupInfo>> found;
  for (const auto& [id, group] : groups_) {
    found.push_back({group->used(),
                     {.group = id,
                      .records = static_cast<int64_t>(group->keys.size()),
                      .live_bytes = group->live_bytes(),
                      .disk_bytes = group->disk_bytes(),
                      .last_used = group->used_seconds}});
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<GroupInfo> infos;
  for (auto& [used, info] : found) infos.push_back(info);
  return infos;
}

int64_t SegmentStore::disk_bytes() const {
  const std::shared_lock lock(index_mutex_);
  return used_bytes_;
}

size_t SegmentStore::index_memory_bytes() const {
  const std::shared_lock lock(index_mutex_);
  size_t bytes = 0;
  for (const auto& [id, group] : groups_) bytes += group->keys.memory_bytes();
  return bytes;
}

void SegmentStore::touch(Group& group) const {
  group.used_seconds = clock_.unix_seconds();
  group.used_order = ++uses_;
}

void SegmentStore::point(Group& group, const KeyTable::ShortKey& key, const Location& at) {
  const std::optional<Location> old = group.keys.insert(key, at);
  if (old) group.segments.at(old->segment).live -= record_bytes(old->length);
  group.segments.at(at.segment).live += record_bytes(at.length);
}

void SegmentStore::unpoint(Group& group, const KeyTable::ShortKey& key) {
  const std::optional<Location> old = group.keys.erase(key);
  if (old) group.segments.at(old->segment).live -= record_bytes(old->length);
}

}  // namespace ndtrain
