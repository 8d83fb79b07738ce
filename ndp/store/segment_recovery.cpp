#include "ndp/store/segment_recovery.h"

#include <algorithm>
#include <array>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/store/segment_scan.h"

namespace ndtrain::ndp {
namespace {

constexpr int64_t kHeaderBytes = kSegmentHeaderBytes;

struct Recovery {
  Fs& fs;
  const std::string& directory;
  SegmentReaders& readers;
  const bool writes;
  RecoveredSegments found = {};

  Status recover();

 private:
  Status discover(const std::string& name);
  bool adopt(SegmentIndex index, std::map<uint32_t, int64_t>& covered);
  Status rescan(SegmentGroup& group, const std::map<uint32_t, int64_t>& covered);
};

// The index before the segments: one that is written meanwhile may speak of segments, and of parts
// of them, that had not been seen.
Status Recovery::recover() {
  Result<SegmentIndex> index = read_index(fs, join(directory, "index"));
  Result<std::vector<std::string>> names = fs.list(directory);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    Status s = discover(name);
    const bool gone = !writes && s.code() == Code::kNotFound;  // another process has deleted it
    if (!s.ok() && !gone) return s;
  }
  std::map<uint32_t, int64_t> covered;
  if (index.ok()) {
    if (!adopt(std::move(*index), covered) && writes) {
      // Segments grow again from here, and must not one day look as that index says.
      if (Status s = fs.remove(join(directory, "index")); !s.ok()) return s;
      fs.sync_directory(directory);
    }
  } else if (!found.groups.empty()) {
    log::info("store {}: reads its segments: {}", directory, index.status().message());
  }
  for (auto& [id, group] : found.groups) {
    if (Status s = rescan(*group, covered); !s.ok()) return s;
  }
  return {};
}

// Takes note of a segment; removes what a crash left half made, unless another process may be at
// it.
Status Recovery::discover(const std::string& name) {
  const std::string path = join(directory, name);
  if (is_temporary(name)) return writes ? fs.remove(path) : Status();
  const std::optional<uint32_t> number = segment_number(name);
  if (!number) return {};
  found.next_number = std::max(found.next_number, *number + 1);
  Result<std::unique_ptr<File>> file = fs.open(path, Fs::Mode::kRead);
  if (!file.ok()) return file.status();
  Result<int64_t> size = (*file)->size();
  if (!size.ok()) return size.status();
  std::array<std::byte, kSegmentHeaderBytes> bytes;
  Result<size_t> got = (*file)->read_at(0, bytes);
  if (!got.ok()) return got.status();
  const auto header = decode_segment_header({bytes.data(), *got});
  if (!header || header->number != *number) {
    if (!writes) return {};
    log::warn("store: deletes {}: {} bytes without a good header", path, *size);
    file->reset();
    return fs.remove(path);
  }
  if (header->version != kSegmentVersion) {
    return {Code::kUnsupported, path + ": format version " + std::to_string(header->version) +
                                    ", this program knows " + std::to_string(kSegmentVersion)};
  }
  std::unique_ptr<SegmentGroup>& group = found.groups[header->group];
  if (!group) group = std::make_unique<SegmentGroup>();
  group->segments[*number] = {.salt = header->salt, .end = *size};
  // All there is to know about its use if the index is lost.
  if (Result<FileInfo> info = fs.info(path); info.ok()) {
    group->used_seconds = std::max<int64_t>(group->used_seconds, info->mtime_ns / 1'000'000'000);
  }
  return {};
}

// Takes over what the index says of groups whose segments are all as it knows them. Segments that
// are gone take their records with them; those of the groups left out are read. False if there was
// such a group.
bool Recovery::adopt(SegmentIndex index, std::map<uint32_t, int64_t>& covered) {
  found.next_number = std::max(found.next_number, index.next_number);
  bool all_fit = true;
  for (size_t i = 0; i < index.groups.size(); ++i) {
    const IndexedGroup& indexed = index.groups[i];
    const auto it = found.groups.find(indexed.id);
    if (it == found.groups.end()) continue;
    SegmentGroup& group = *it->second;
    group.use(indexed.used);
    found.uses = std::max<uint64_t>(found.uses, indexed.used.order);
    const bool fits = std::all_of(
        indexed.segments.begin(), indexed.segments.end(), [&](const CoveredSegment& known) {
          const auto segment = group.segments.find(known.number);
          return segment == group.segments.end() ||
                 (segment->second.salt == known.salt && segment->second.end >= known.end);
        });
    if (!fits) {
      log::warn("store {}: group {} is not as the index says", directory, to_hex(indexed.id));
      all_fit = false;
      continue;
    }
    for (const CoveredSegment& known : indexed.segments) covered[known.number] = known.end;
    for (const KeyTable::Entry& entry : index.keys[i].entries()) {
      if (group.segments.contains(entry.at.segment)) group.point(entry.key, entry.at);
    }
    index.keys[i] = {};
  }
  return all_fit;
}

Status Recovery::rescan(SegmentGroup& group, const std::map<uint32_t, int64_t>& covered) {
  for (auto& [number, segment] : group.segments) {
    const auto known = covered.find(number);
    const int64_t begin = known == covered.end() ? kHeaderBytes : known->second;
    const bool last = number == group.segments.rbegin()->first;
    int64_t end = begin;
    if (begin < segment.end) {
      Result<std::shared_ptr<File>> file = readers.get(number);
      if (!writes && file.status().code() == Code::kNotFound) continue;  // deleted meanwhile
      if (!file.ok()) return file.status();
      const uint32_t n = number;
      Result<int64_t> scanned = scan_segment(
          **file, segment.salt, begin, last, [&](const RecordHeader& header, int64_t offset) {
            const KeyTable::ShortKey key = KeyTable::shorten(header.key);
            if (header.kind == RecordKind::kPut) {
              group.point(key, {n, static_cast<uint32_t>(offset), header.length});
            } else {
              group.unpoint(key);
            }
            return Status();
          });
      if (!scanned.ok()) return scanned.status();
      end = *scanned;
      found.since_index += end - begin;
    }
    if (!last || !writes) continue;
    Result<std::unique_ptr<File>> file =
        fs.open(join(directory, segment_name(number)), Fs::Mode::kAppend);
    if (!file.ok()) return file.status();
    if (end < segment.end) {
      log::info("store: cuts {} torn bytes off {}", segment.end - end,
                join(directory, segment_name(number)));
      if (Status s = (*file)->truncate(end); !s.ok()) return s;
      segment.end = end;
    }
    group.writer = std::move(*file);
    // Read back is not yet durable: the process may have died without the machine.
    group.dirty = found.directory_dirty = true;
  }
  return {};
}

}  // namespace

Result<RecoveredSegments> recover_segments(Fs& fs, const std::string& directory,
                                           SegmentReaders& readers, bool writes) {
  Recovery recovery{fs, directory, readers, writes};
  if (Status s = recovery.recover(); !s.ok()) return s;
  return std::move(recovery.found);
}

}  // namespace ndtrain::ndp
