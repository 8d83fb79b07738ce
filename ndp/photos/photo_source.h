// Where photos come from. A directory today; the interface asks only for what an object store or a
// cluster file system can answer too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/core/fs.h"

namespace ndtrain::ndp {

struct PhotoRef {
  std::string path;  // relative to the source, parts separated by '/'
  int64_t size = 0;
  int64_t mtime_ns = 0;
  uint64_t inode = 0;  // 0 where the source knows none

  bool operator==(const PhotoRef&) const = default;
};

// A place that could not be looked at: a photo, or a directory with all that is below it.
struct PhotoProblem {
  std::string path;
  std::string message;
};

struct PhotoPage {
  std::vector<PhotoRef> photos;
  std::vector<PhotoProblem> problems;
  std::string next;  // cursor of the following page; "" when this was the last
};

class PhotoSource {
 public:
  virtual ~PhotoSource() = default;
  // At most `limit` (> 0) photos after `cursor` ("" to begin), each once, in an order of the
  // source's own that does not change. An error only when nothing can be listed at all, or
  // something is kUnavailable. One thread at a time.
  virtual Result<PhotoPage> list(const std::string& cursor, size_t limit) = 0;
  // The bytes of a listed photo. kTooLarge beyond limits::kPhotoFile. Any number of threads.
  virtual Result<std::string> open(const std::string& path) = 0;
};

// The files under `root` whose extension is a photo format's, also one we cannot decode, in byte
// order of their path's parts. Names that start with a dot are not looked at. Links are followed;
// one that leads back to a directory above it is a problem of its page.
class DirectorySource final : public PhotoSource {
 public:
  // `above`: directories that `root` is below, into which no link is followed either.
  DirectorySource(Fs& fs, std::string root, std::vector<FileInfo> above = {})
      : fs_(fs), root_(std::move(root)), above_(std::move(above)) {}

  const std::string& root() const { return root_; }
  Result<PhotoPage> list(const std::string& cursor, size_t limit) override;
  Result<std::string> open(const std::string& path) override;

 private:
  // A directory on the way down to where the walk stands.
  struct Level {
    std::string path;
    FileInfo info;
    std::vector<std::string> names;
    size_t next = 0;
  };

  Status enter(std::string path, const FileInfo& info);
  Status seek(const std::string& cursor, PhotoPage& page);
  Result<PhotoPage> walk(const std::string& cursor, size_t limit);
  Status visit(const std::string& path, PhotoPage& page);
  std::string full(const std::string& path) const {
    return path.empty() ? root_ : join(root_, path);
  }

  Fs& fs_;
  const std::string root_;
  const std::vector<FileInfo> above_;
  std::vector<Level> levels_;
  std::string stands_at_;  // the cursor that levels_ continue from
};

}  // namespace ndtrain::ndp
