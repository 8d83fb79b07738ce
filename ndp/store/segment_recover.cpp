// Opening: what is on disk becomes the index in memory again.
#include <algorithm>

#include "framework/core/log.h"
#include "framework/core/named_lock.h"
#include "framework/core/publish.h"
#include "ndp/store/segment_scan.h"
#include "ndp/store/segment_store.h"

namespace ndtrain {
namespace {

// Offsets are 32 bits, and a record of limits::kRecord may begin just before the end.
constexpr int64_t kMaxSegmentBytes = int64_t{2} << 30;
constexpr int64_t kHeaderBytes = kSegmentHeaderBytes;

}  // namespace

Result<std::unique_ptr<SegmentStore>> SegmentStore::open(Fs& fs, const Clock& clock,
                                                         const std::string& directory,
                                                         const SegmentOptions& options) {
  if (options.budget_bytes < 0 || options.segment_bytes < kHeaderBytes ||
      options.segment_bytes > kMaxSegmentBytes) {
    throw Error("SegmentStore: budget ", options.budget_bytes, ", segments of ",
                options.segment_bytes, " bytes: at most ", kMaxSegmentBytes, " are possible");
  }
  if (Status s = fs.make_directories(directory); !s.ok()) return s;
  Result<std::unique_ptr<FileLock>> lock = lock_as(fs, join(directory, "lock"), options.who);
  if (!lock.ok()) return lock.status();
  Result<std::unique_ptr<SegmentStore>> store = made(fs, clock, directory, options);
  if (!store.ok()) return store;
  (*store)->lock_ = std::move(*lock);
  if (Status s = (*store)->recover(); !s.ok()) return s;
  return store;
}

Result<std::unique_ptr<SegmentStore>> SegmentStore::open_to_read(Fs& fs, const Clock& clock,
                                                                 const std::string& directory) {
  if (Status s = fs.make_directories(directory); !s.ok()) return s;
  Result<std::unique_ptr<SegmentStore>> store = made(fs, clock, directory, {});
  if (!store.ok()) return store;
  (*store)->writes_ = false;
  if (Status s = (*store)->recover(); !s.ok()) return s;
  return store;
}

Result<std::unique_ptr<SegmentStore>> SegmentStore::made(Fs& fs, const Clock& clock,
                                                         const std::string& directory,
                                                         const SegmentOptions& options) {
  Result<DiskBudget> budget = DiskBudget::open(fs, directory, options.budget_bytes);
  if (!budget.ok()) return budget.status();
  return std::unique_ptr<SegmentStore>(
      new SegmentStore(fs, clock, directory, options, std::move(*budget)));
}

// The index before the segments: one that is written meanwhile may speak of segments, and of parts
// of them, that had not been seen.
Status SegmentStore::recover() {
  Result<SegmentIndex> index = read_index(fs_, join(directory_, "index"));
  Result<std::vector<std::string>> names = fs_.list(directory_);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    Status s = discover(name);
    const bool gone = !writes_ && s.code() == Code::kNotFound;  // another process has deleted it
    if (!s.ok() && !gone) return s;
  }
  std::map<uint32_t, int64_t> covered;
  if (index.ok()) {
    if (!adopt(std::move(*index), covered) && writes_) {
      // Segments grow again from here, and must not one day look as that index says.
      if (Status s = fs_.remove(join(directory_, "index")); !s.ok()) return s;
      sync_directory();
    }
  } else if (!groups_.empty()) {
    log::info("store {}: reads its segments: {}", directory_, index.status().message());
  }
  for (auto& [id, group] : groups_) {
    if (Status s = rescan(*group, covered); !s.ok()) return s;
    used_bytes_ += group->disk_bytes();
  }
  return {};
}

// Takes note of a segment; removes what a crash left half made, unless another process may be at
// it.
Status SegmentStore::discover(const std::string& name) {
  const std::string path = join(directory_, name);
  if (is_temporary(name)) return writes_ ? fs_.remove(path) : Status();
  const std::optional<uint32_t> number = segment_number(name);
  if (!number) return {};
  next_number_ = std::max(next_number_, *number + 1);
  Result<std::unique_ptr<File>> file = fs_.open(path, Fs::Mode::kRead);
  if (!file.ok()) return file.status();
  Result<int64_t> size = (*file)->size();
  if (!size.ok()) return size.status();
  std::array<std::byte, kSegmentHeaderBytes> bytes;
  Result<size_t> got = (*file)->read_at(0, bytes);
  if (!got.ok()) return got.status();
  const auto header = decode_segment_header({bytes.data(), *got});
  if (!header || header->number != *number) {
    if (!writes_) return {};
    log::warn("store: deletes {}: {} bytes without a good header", path, *size);
    file->reset();
    return fs_.remove(path);
  }
  if (header->version != kSegmentVersion) {
    return {Code::kUnsupported, path + ": format version " + std::to_string(header->version) +
                                    ", this program knows " + std::to_string(kSegmentVersion)};
  }
  std::unique_ptr<Group>& group = groups_[header->group];
  if (!group) group = std::make_unique<Group>();
  group->segments[*number] = {.salt = header->salt, .end = *size};
  // All there is to know about its use if the index is lost.
  if (Result<FileInfo> info = fs_.info(path); info.ok()) {
    group->used_seconds = std::max<int64_t>(group->used_seconds, info->mtime_ns / 1'000'000'000);
  }
  return {};
}

// Takes over what the index says of groups whose segments are all as it knows them. Segments that
// are gone take their records with them; those of the groups left out are read. False if there was
// such a group.
bool SegmentStore::adopt(SegmentIndex index, std::map<uint32_t, int64_t>& covered) {
  next_number_ = std::max(next_number_, index.next_number);
  bool all_fit = true;
  for (size_t i = 0; i < index.groups.size(); ++i) {
    const IndexedGroup& indexed = index.groups[i];
    const auto it = groups_.find(indexed.id);
    if (it == groups_.end()) continue;
    Group& group = *it->second;
    group.used_seconds = indexed.used.seconds;
    group.used_order = indexed.used.order;
    uses_ = std::max<uint64_t>(uses_, indexed.used.order);
    const bool fits = std::all_of(
        indexed.segments.begin(), indexed.segments.end(), [&](const CoveredSegment& known) {
          const auto segment = group.segments.find(known.number);
          return segment == group.segments.end() ||
                 (segment->second.salt == known.salt && segment->second.end >= known.end);
        });
    if (!fits) {
      log::warn("store {}: group {} is not as the index says", directory_, to_hex(indexed.id));
      all_fit = false;
      continue;
    }
    for (const CoveredSegment& known : indexed.segments) covered[known.number] = known.end;
    for (const KeyTable::Entry& entry : index.keys[i].entries()) {
      if (group.segments.contains(entry.at.segment)) point(group, entry.key, entry.at);
    }
    index.keys[i] = {};
  }
  return all_fit;
}

Status SegmentStore::rescan(Group& group, const std::map<uint32_t, int64_t>& covered) {
  for (auto& [number, segment] : group.segments) {
    const auto known = covered.find(number);
    const int64_t begin = known == covered.end() ? kHeaderBytes : known->second;
    const bool last = number == group.segments.rbegin()->first;
    int64_t end = begin;
    if (begin < segment.end) {
      Result<std::shared_ptr<File>> file = readers_.get(number);
      if (!writes_ && file.status().code() == Code::kNotFound) continue;  // deleted meanwhile
      if (!file.ok()) return file.status();
      const uint32_t n = number;
      Result<int64_t> scanned = scan_segment(
          **file, segment.salt, begin, last, [&](const RecordHeader& header, int64_t offset) {
            const KeyTable::ShortKey key = KeyTable::shorten(header.key);
            if (header.kind == RecordKind::kPut) {
              point(group, key, {n, static_cast<uint32_t>(offset), header.length});
            } else {
              unpoint(group, key);
            }
            return Status();
          });
      if (!scanned.ok()) return scanned.status();
      end = *scanned;
      since_index_ += end - begin;
    }
    if (!last || !writes_) continue;
    Result<std::unique_ptr<File>> file = fs_.open(path_of(number), Fs::Mode::kAppend);
    if (!file.ok()) return file.status();
    if (end < segment.end) {
      log::info("store: cuts {} torn bytes off {}", segment.end - end, path_of(number));
      if (Status s = (*file)->truncate(end); !s.ok()) return s;
      segment.end = end;
    }
    group.writer = std::move(*file);
    // Read back is not yet durable: the process may have died without the machine.
    group.dirty = directory_dirty_ = true;
  }
  return {};
}

}  // namespace ndtrain
