#include "ndp/store/segment_store.h"

#include <algorithm>
#include <cstring>

#include "framework/core/limits.h"
#include "framework/core/named_lock.h"
#include "ndp/store/segment_recovery.h"
#include "ndp/store/segment_scan.h"

namespace ndtrain::ndp {
namespace {

// Offsets are 32 bits, and a record of limits::kRecord may begin just before the end.
constexpr int64_t kMaxSegmentBytes = int64_t{2} << 30;

std::string described(const Digest& group, const KeyTable::ShortKey& key) {
  return to_hex(key).substr(0, 16) + " of group " + to_hex(group).substr(0, 16);
}

}  // namespace

SegmentStore::SegmentStore(Fs& fs, const Clock& clock, std::string directory,
                           const SegmentOptions& options, DiskBudget budget)
    : fs_(fs),
      clock_(clock),
      directory_(directory),
      options_(options),
      budget_(std::move(budget)),
      readers_(fs, std::move(directory)) {}

SegmentStore::~SegmentStore() = default;

Result<std::unique_ptr<SegmentStore>> SegmentStore::open(Fs& fs, const Clock& clock,
                                                         const std::string& directory,
                                                         const SegmentOptions& options) {
  if (options.budget_bytes < 0 ||
      options.segment_bytes < static_cast<int64_t>(kSegmentHeaderBytes) ||
      options.segment_bytes > kMaxSegmentBytes) {
    throw Error("SegmentStore: budget ", options.budget_bytes, ", segments of ",
                options.segment_bytes, " bytes: at most ", kMaxSegmentBytes, " are possible");
  }
  if (Status s = fs.make_directories(directory); !s.ok()) return s;
  Result<std::unique_ptr<FileLock>> lock = lock_as(fs, join(directory, "lock"), options.who);
  if (!lock.ok()) return lock.status();
  Result<std::unique_ptr<SegmentStore>> store = made(fs, clock, directory, options, true);
  if (store.ok()) (*store)->lock_ = std::move(*lock);
  return store;
}

Result<std::unique_ptr<SegmentStore>> SegmentStore::open_to_read(Fs& fs, const Clock& clock,
                                                                 const std::string& directory) {
  if (Status s = fs.make_directories(directory); !s.ok()) return s;
  return made(fs, clock, directory, {}, false);
}

Result<std::unique_ptr<SegmentStore>> SegmentStore::made(Fs& fs, const Clock& clock,
                                                         const std::string& directory,
                                                         const SegmentOptions& options,
                                                         bool writes) {
  Result<DiskBudget> budget = DiskBudget::open(fs, directory, options.budget_bytes);
  if (!budget.ok()) return budget.status();
  std::unique_ptr<SegmentStore> store(
      new SegmentStore(fs, clock, directory, options, std::move(*budget)));
  store->writes_ = writes;
  Result<RecoveredSegments> found = recover_segments(fs, directory, store->readers_, writes);
  if (!found.ok()) return found.status();
  store->groups_ = std::move(found->groups);
  store->next_number_ = found->next_number;
  store->uses_ = found->uses;
  store->since_index_ = found->since_index;
  store->directory_dirty_ = found->directory_dirty;
  for (const auto& [id, group] : store->groups_) store->used_bytes_ += group->disk_bytes();
  return store;
}

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
    groups_.emplace(group, std::make_unique<SegmentGroup>());
  }
  SegmentGroup& g = *groups_.at(group);
  touch(g);
  Result<Location> at = append(group, g, header, payload);
  if (!at.ok()) return at.status();
  const std::lock_guard index_lock(index_mutex_);
  g.point(KeyTable::shorten(key), *at);
  return {};
}

Status SegmentStore::remove(const Digest& group, const Digest& key) {
  must_write();
  const std::lock_guard write_lock(write_mutex_);
  const auto it = groups_.find(group);
  if (it == groups_.end()) return {};
  SegmentGroup& g = *it->second;
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
  g.unpoint(short_key);
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

std::vector<KeyTable::ShortKey> SegmentStore::keys(const Digest& group) const {
  std::vector<KeyTable::ShortKey> keys;
  const std::shared_lock lock(index_mutex_);
  const auto it = groups_.find(group);
  if (it == groups_.end()) return keys;
  keys.reserve(it->second->keys.size());
  for (const KeyTable::Entry& e : it->second->keys.entries()) keys.push_back(e.key);
  return keys;
}

Result<Found> SegmentStore::get(const Digest& group, const Digest& key, std::span<std::byte> to) {
  const KeyTable::ShortKey short_key = KeyTable::shorten(key);
  Result<Hit> hit = locate(group, short_key);
  if (!hit.ok()) return hit.status();
  if (hit->at.length > to.size()) {
    return Status(Code::kTooLarge, "store: " + described(group, short_key) + " has " +
                                       std::to_string(hit->at.length) + " bytes, the buffer " +
                                       std::to_string(to.size()));
  }
  return checked(group, short_key, hit->at,
                 read_record(*hit->file, hit->salt, hit->at, key, to.first(hit->at.length)));
}

Result<Found> SegmentStore::get(const Digest& group, const Digest& key,
                                std::vector<std::byte>& to) {
  const KeyTable::ShortKey short_key = KeyTable::shorten(key);
  Result<Hit> hit = locate(group, short_key);
  if (!hit.ok()) return hit.status();
  to.resize(hit->at.length);
  return checked(group, short_key, hit->at, read_record(*hit->file, hit->salt, hit->at, key, to));
}

Result<Found> SegmentStore::get(const Digest& group, const KeyTable::ShortKey& short_key,
                                Digest& key, std::vector<std::byte>& to) {
  Result<Hit> hit = locate(group, short_key);
  if (!hit.ok()) return hit.status();
  Result<RecordHeader> header = read_header(*hit->file, hit->salt, hit->at);
  if (header.ok()) {
    key = header->key;
    to.resize(hit->at.length);
    const Status s = read_payload(*hit->file, *header, hit->at.offset, to);
    if (!s.ok()) header = s;
  }
  return checked(group, short_key, hit->at, header);
}

Result<SegmentStore::Hit> SegmentStore::locate(const Digest& group, const KeyTable::ShortKey& key) {
  const std::shared_lock lock(index_mutex_);
  const auto it = groups_.find(group);
  const auto at = it == groups_.end() ? std::nullopt : it->second->keys.find(key);
  if (!at) return Status(Code::kNotFound, "store: " + described(group, key) + " is not there");
  touch(*it->second);
  // Opened under the lock: a segment with an index entry is not deleted before the entry is gone.
  Result<std::shared_ptr<File>> file = readers_.get(at->segment);
  if (!file.ok()) return file.status();
  return Hit{*at, it->second->segments.at(at->segment).salt, std::move(*file)};
}

Result<Found> SegmentStore::find(const Digest& group, const Digest& key) {
  const KeyTable::ShortKey short_key = KeyTable::shorten(key);
  const Result<Hit> hit = locate(group, short_key);
  if (!hit.ok()) return hit.status();
  return checked(group, short_key, hit->at, read_header(*hit->file, hit->salt, hit->at, key));
}

// What is damaged is not there from now on.
Result<Found> SegmentStore::checked(const Digest& group, const KeyTable::ShortKey& key,
                                    const Location& at, const Result<RecordHeader>& header) {
  const Status& s = header.status();
  if (header.ok()) return Found{header->meta, header->length};
  if (s.code() == Code::kNotFound) {
    return Status(Code::kNotFound, "store: " + described(group, key) + " is not there");
  }
  if (s.code() != Code::kCorrupt) return s;
  const std::lock_guard lock(index_mutex_);
  const auto it = groups_.find(group);
  if (it != groups_.end() && it->second->keys.find(key) == at) it->second->unpoint(key);
  return Status(Code::kCorrupt, "store: " + described(group, key) + " in " + path_of(at.segment) +
                                    ": " + s.message() + "; it is dropped");
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

void SegmentStore::touch(SegmentGroup& group) const { group.use({clock_.unix_seconds(), ++uses_}); }

}  // namespace ndtrain::ndp
