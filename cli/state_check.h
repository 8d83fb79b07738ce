// Whether the files of a stopped role's state directory are as they were written, by the checksums
// that they have, and what can be done about those that are not. docs/operations.md, "What is in a
// state directory", has the files.
#pragma once

#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "ndp/jobs/progress.h"

namespace ndtrain::cli {

struct DamagedFile {
  std::string file;  // below the directory
  std::string what;
  bool derived = false;  // the role makes it again, or gets it again, when it is not there
  bool removed = false;  // and has to now
  bool mended = false;   // what it says of itself is right again
};

struct CheckedState {
  int64_t files = 0, bytes = 0;
  std::vector<std::string> unchecked;  // files without a checksum: logs, reports, runs
  std::vector<DamagedFile> damaged;

  bool whole() const;  // or will be, once the role has started
};

// How a file of such a role is checked, by its name below the directory; null: it has no checksum.
using FileCheck = Status (*)(Fs& fs, const std::string& path);
FileCheck check_of(const std::string& role, const std::string& name);

// `role`: of state.json. With `repair`, derived files that are damaged are removed, and labels
// whose counts are others (label_counts.h) are counted again. When it is interrupted, what was
// found by then. Throws Error: what cannot be listed or removed. The caller has the directory's
// lock.
CheckedState check_state(Fs& fs, const std::string& state, const std::string& role, bool repair,
                         ndp::Progress& progress);

}  // namespace ndtrain::cli
