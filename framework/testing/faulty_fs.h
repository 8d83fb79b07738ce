// A file system in front of another, in memory or real, of which one operation goes wrong. What
// runs on it is one process: each gets a FaultyFs of its own, in front of the same disk.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/fs.h"

namespace ndtrain {

enum class Fault {
  kIo,            // EIO: of any operation; nothing of it is done
  kNoSpace,       // ENOSPC: of one that makes or writes
  kReadOnly,      // EROFS: of one that changes anything
  kTooManyFiles,  // EMFILE: of an open, a list or a lock
  kShortWrite,    // an append writes half and answers ENOSPC
  kTornWrite,     // an append writes half, and the process ends
  kSyncLost,      // a sync of a file or a directory does nothing and reports success
  kRenameLost     // so does a rename
};
inline constexpr Fault kFaults[] = {Fault::kIo,           Fault::kNoSpace,    Fault::kReadOnly,
                                    Fault::kTooManyFiles, Fault::kShortWrite, Fault::kTornWrite,
                                    Fault::kSyncLost,     Fault::kRenameLost};

const char* name_of(Fault fault);
bool is_lie(Fault fault);  // it reports success

// Thrown where a process ends in the middle of a write; no std::exception, which nobody answers
// for.
struct ProcessEnded {};

// Thread-safe. Files must not outlive it, nor it the disk.
class FaultyFs final : public Fs {
 public:
  explicit FaultyFs(Fs& disk) : disk_(disk) {}

  // The n-th operation from now (1: the next one) that the fault can strike goes wrong; `lasting`:
  // so do all such ones after it, until heal().
  void strike(int64_t n, Fault fault, bool lasting = false);
  void heal() { strike(0, Fault::kIo); }
  bool struck() const;  // since strike()

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override;
  Result<FileInfo> info(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;
  Status make_directories(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Result<Space> space(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;

 private:
  enum class Call { kRead, kOpen, kMake, kAppend, kChange, kSync, kRename };
  class OpenFile;

  static bool can_strike(Fault fault, Call call);
  std::optional<Fault> hit(Call call);               // what goes wrong with it
  Status begin(Call call, const std::string& path);  // why the call fails, if it does
  void end();
  Status try_sync_directory(const std::string& path) override;

  Fs& disk_;
  mutable std::mutex mutex_;  // of all below
  Fault fault_ = Fault::kIo;
  int64_t left_ = 0;  // operations until the one that goes wrong; 0: none does
  bool lasting_ = false, struck_ = false;
  bool ended_ = false;  // the process has: what its destructors still try fails
};

}  // namespace ndtrain
