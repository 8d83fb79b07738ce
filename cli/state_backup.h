// A role's state directory as it is at one moment, in an archive, while its process goes on:
// docs/decisions/64-a-backup-of-one-moment.md says in which order its files are read, and why.
#pragma once

#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/fs.h"

namespace ndtrain::cli {

// As state.json says it; "" where it does not. Throws Error: it is no state of a role.
std::string role_of_state(Fs& fs, const std::string& state);

struct StateBackup {
  std::string state, role;  // of state.json
  std::string out;          // must be absent
  bool at_work = false;     // its process may be: nobody else holds its lock
  bool all = false;         // also what is computed again; not while it is at work
};

struct BackedUp {
  size_t files = 0;
  int64_t bytes = 0, archive_bytes = 0;
  std::vector<std::string> left_out;  // folders that are computed again
  bool labels = false;                // the label database is in it
};

// The archive appears when it is whole. Throws Error: what cannot be read or written, or files that
// change again and again.
BackedUp back_up(Fs& fs, Clock& clock, const StateBackup& what);

// Whether what was unpacked is whole in itself; throws Error when not.
void check_restored(Fs& fs, const std::string& state);

}  // namespace ndtrain::cli
