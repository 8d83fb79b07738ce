// Payloads on disk under (group, key), in append-only segment files: the feature cache (group:
// extractor_id, key: photo digest). Everything in it can be computed again, so the store may
// forget, but what it returns is what was put. docs/segment_format.md describes the files.
//
// Threads: all members may be called from any thread; reads run beside each other and beside a
// write, writes are serialised. Processes: one writes at a time, held off by a lock file; any
// number read beside it what was there when they began.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "ndp/store/disk_budget.h"
#include "ndp/store/segment_format.h"
#include "ndp/store/segment_groups.h"
#include "ndp/store/segment_readers.h"

namespace ndtrain::ndp {

struct SegmentOptions {
  int64_t budget_bytes = 0;                       // 0: a tenth of the volume
  int64_t segment_bytes = int64_t{256} << 20;     // a segment is closed beyond this
  int64_t index_every_bytes = int64_t{64} << 20;  // flush writes the index after so much, at least
  std::string who = {};  // that writes here, for the message of others: see lock_as()
};

struct Found {
  RecordMeta meta;
  size_t bytes = 0;
};

struct GroupInfo {
  Digest group{};
  int64_t records = 0;
  int64_t live_bytes = 0;  // of the records that get() would find
  int64_t disk_bytes = 0;
  int64_t last_used = 0;  // Unix seconds
};

struct GcReport {
  int64_t groups_evicted = 0;
  int64_t segments_compacted = 0;
  int64_t bytes_before = 0;
  int64_t bytes_after = 0;
};

class SegmentStore {
 public:
  // Makes the directory if absent. kExists: another process writes here, which the message names;
  // kUnsupported: a newer program wrote it. What a crash left is put right here; an index that fits
  // saves reading the segments.
  static Result<std::unique_ptr<SegmentStore>> open(Fs& fs, const Clock& clock,
                                                    const std::string& directory,
                                                    const SegmentOptions& options = {});
  // For reading alone, whoever writes: finds what is whole by now. What would change something
  // throws Error.
  static Result<std::unique_ptr<SegmentStore>> open_to_read(Fs& fs, const Clock& clock,
                                                            const std::string& directory);
  // Without close(), the next open reads again what came after the last index.
  ~SegmentStore();

  // Replaces what is there. Durable after the next flush. When the budget is exceeded, other groups
  // go, the least recently used first; kNoSpace if that cannot help (nothing is evicted then).
  // kTooLarge: beyond limits::kRecord.
  Status put(const Digest& group, const Digest& key, const RecordMeta& meta,
             std::span<const std::byte> payload);

  // Reads into `to`, which may be longer than the payload. kNotFound; kTooLarge: `to` is too short;
  // kCorrupt: the bytes on disk are not those that were put, and the record is gone from now on.
  Result<Found> get(const Digest& group, const Digest& key, std::span<std::byte> to);
  // The same for payloads of unknown length; resizes `to`.
  Result<Found> get(const Digest& group, const Digest& key, std::vector<std::byte>& to);

  // The keys of a group, as the index in memory has them; in no particular order.
  std::vector<KeyTable::ShortKey> keys(const Digest& group) const;
  // get() by one of them; `key` becomes the whole of it.
  Result<Found> get(const Digest& group, const KeyTable::ShortKey& short_key, Digest& key,
                    std::vector<std::byte>& to);

  // What get() would find, but for the payload, which is not read or checked. kNotFound.
  Result<Found> find(const Digest& group, const Digest& key);

  bool contains(const Digest& group, const Digest& key) const;  // does not count as a use
  Status remove(const Digest& group, const Digest& key);        // durable after the next flush
  Status remove_group(const Digest& group);                     // durable on return

  std::vector<GroupInfo> groups() const;  // the least recently used first
  int64_t disk_bytes() const;
  int64_t budget_bytes() const { return budget_.bytes(); }

  // Everything put or removed before is durable on return.
  Status flush();
  // Evicts until the budget holds (it may be smaller than last time), then compacts segments that
  // are more than half dead.
  Result<GcReport> gc();
  // Rewrites every segment that holds something dead.
  Result<GcReport> compact();
  // Flushes and writes the index; the store takes no further calls.
  Status close();
  // The same, but it goes on as one that was opened to read: others may write.
  Status stop_writing();
  // What is in this group stays readable here while another process deletes it.
  void pin(const Digest& group);

 private:
  SegmentStore(Fs& fs, const Clock& clock, std::string directory, const SegmentOptions& options,
               DiskBudget budget);

  static Result<std::unique_ptr<SegmentStore>> made(Fs& fs, const Clock& clock,
                                                    const std::string& directory,
                                                    const SegmentOptions& options, bool writes);

  // segment_compact.cpp
  Status compact_where(bool (*wants)(const Segment&), GcReport& report);
  Status compact_segment(const Digest& id, SegmentGroup& group, uint32_t number);
  Status move_record(const Digest& id, SegmentGroup& group, const RecordHeader& header,
                     const Location& from, File& file);

  // Under write_mutex_.
  Status make_room(const Digest& keep, int64_t bytes);
  Status evict(const Digest& id);
  Result<uint32_t> writable_segment(const Digest& id, SegmentGroup& group, int64_t bytes);
  Result<Location> append(const Digest& id, SegmentGroup& group, const RecordHeader& header,
                          std::span<const std::byte> payload);
  Status delete_segment(SegmentGroup& group, uint32_t number);
  void sync_all();
  void sync_directory();
  void write_index();

  std::string path_of(uint32_t number) const { return join(directory_, segment_name(number)); }
  void must_write() const;  // throws Error in a store that only reads
  void touch(SegmentGroup& group) const;

  struct Hit {
    Location at;
    uint64_t salt;
    std::shared_ptr<File> file;
  };
  Result<Hit> locate(const Digest& group, const KeyTable::ShortKey& key);
  Result<Found> checked(const Digest& group, const KeyTable::ShortKey& key, const Location& at,
                        const Result<RecordHeader>& header);

  Fs& fs_;
  const Clock& clock_;
  const std::string directory_;
  const SegmentOptions options_;
  DiskBudget budget_;
  std::unique_ptr<FileLock> lock_;
  bool writes_ = true;
  mutable SegmentReaders readers_;
  mutable std::atomic<uint64_t> uses_ = 0;

  // A writer holds write_mutex_ for its whole call, and index_mutex_ as well, exclusively, while it
  // changes what get() may look at. write_mutex_ comes first.
  std::mutex write_mutex_;
  mutable std::shared_mutex index_mutex_;
  SegmentGroups groups_;    // changed under both
  int64_t used_bytes_ = 0;  // of all segment files; under both
  uint32_t next_number_ = 1;
  bool directory_dirty_ = false;
  int64_t since_index_ = 0;  // bytes appended since the index was written
};

}  // namespace ndtrain::ndp
