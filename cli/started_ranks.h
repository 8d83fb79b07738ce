// The other ranks of a run as processes that this one starts, and directories that go with their
// processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/process.h"

namespace ndtrain::cli {

// A new directory where temporary files go (TMPDIR), which goes with this with all that is in it.
class ScratchDirectory {
 public:
  explicit ScratchDirectory(const std::string& name);  // begins its own; throws Error
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class StartedRanks {
 public:
  StartedRanks() = default;
  ~StartedRanks();  // waits for them
  StartedRanks(const StartedRanks&) = delete;
  StartedRanks& operator=(const StartedRanks&) = delete;

  // Ranks 1 to `ranks` - 1 of a run whose rank 0 listens at `rendezvous`: this program with `words`
  // and these flags. Throws Error.
  void start(const std::vector<std::string>& words, int ranks, const std::string& rendezvous,
             int64_t threads);
  // Those of these ranks that were started here: they may be stopped, and would be waited for as
  // long.
  void end(const std::vector<int>& ranks);

 private:
  std::optional<ScratchDirectory> scratch_;  // of all of them, also of those that are killed
  std::vector<ProcessId> processes_;         // from rank 1 on
};

}  // namespace ndtrain::cli
