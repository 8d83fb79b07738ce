// Who changed what: an append-only file of JSON lines in a state directory,
//
//   audit.jsonl   {"time", "who", "address", "what", "request", "asked", "before", "checksum"}
//
// A line is durable before the change is made, so no change is without one; where the change then
// fails, another line with "failed" says so. At kAuditBytes bytes the file becomes
// audit.1.jsonl, that audit.2.jsonl and so on up to kAuditFiles, of which the last goes.
//
// Of a photo that was deleted a line says no more than who did what to it when, and its digest.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "framework/core/hash.h"

namespace ndtrain::ndp {

inline constexpr int64_t kAuditBytes = int64_t{16} << 20;  // after which a new file is begun

struct AuditLine {
  std::string who;      // the token's name; "" where none is needed
  std::string address;  // where the request came from; "" on the machine itself
  std::string what;     // "label"
  std::string request;  // "PUT /photos/5f70…/label"
  std::string asked;    // what came with it, JSON or else left out
  std::string before;   // what was, where that is known
  int failed = 0;       // the status that the request before was answered with
};

// Thread-safe, and other processes may write to the same file.
class AuditLog {
 public:
  static constexpr int kAuditFiles = 4;

  AuditLog(Fs& fs, Clock& clock, std::string directory)
      : fs_(fs), clock_(clock), directory_(std::move(directory)) {}

  // Durable on return; otherwise the Status says why there is no such line.
  Status add(const AuditLine& line) { return add({&line, 1}); }
  Status add(std::span<const AuditLine> lines);  // all of them, or none
  // Photos that were deleted, by the paths that requests about them have: "/labels/17", "/photos/"
  // and the digest. What they showed, and where they were, goes from all lines; durable on return.
  Status forget(const std::map<std::string, Digest>& photos);
  // The last `most` lines, oldest first, of all files, without their checksums. In place of one
  // that is not as it was written {"damaged", "text"}.
  Result<std::vector<std::string>> last(size_t most) const;

 private:
  std::string path(int i) const;
  Result<std::unique_ptr<FileLock>> lock();
  Status rotate();
  static Result<int64_t> end_of_lines(File& file);
  Status append(const std::string& text);
  Status forget_in(const std::string& file, const std::map<std::string, Digest>& photos);

  Fs& fs_;
  Clock& clock_;
  const std::string directory_;
  mutable std::mutex mutex_;
};

}  // namespace ndtrain::ndp
