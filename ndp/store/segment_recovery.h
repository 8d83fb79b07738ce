// Opening a SegmentStore: what is on disk becomes the index in memory again.
#pragma once

#include <string>

#include "framework/core/fs.h"
#include "ndp/store/segment_groups.h"
#include "ndp/store/segment_readers.h"

namespace ndtrain::ndp {

struct RecoveredSegments {
  SegmentGroups groups;
  uint32_t next_number = 1;
  uint64_t uses = 0;             // the last LastUse::order
  int64_t since_index = 0;       // bytes that the index file does not cover
  bool directory_dirty = false;  // an fsync is due
};

// `writes`: what a crash left is put right; else another process may be at it, and it stays.
// kUnsupported: a newer program wrote it.
Result<RecoveredSegments> recover_segments(Fs& fs, const std::string& directory,
                                           SegmentReaders& readers, bool writes);

}  // namespace ndtrain::ndp
