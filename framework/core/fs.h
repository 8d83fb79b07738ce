// Files, injected so that tests can fill the disk, tear a write or crash between two calls.
// Paths are UTF-8. All calls are thread-safe; a File belongs to one thread at a time except for
// read_at, which any number may call.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"

namespace ndtrain {

struct FileInfo {
  int64_t size = 0;
  int64_t mtime_ns = 0;
  uint64_t inode = 0;
  bool is_directory = false;
};

struct Space {
  int64_t total = 0;  // bytes of the volume
  int64_t free = 0;   // bytes this user may still write
};

class File {
 public:
  virtual ~File() = default;
  // Fills `to` from `offset`; returns how much was there (short only at the end of the file).
  virtual Result<size_t> read_at(int64_t offset, std::span<std::byte> to) = 0;
  virtual Status append(std::span<const std::byte> bytes) = 0;  // all or an error
  virtual Status truncate(int64_t size) = 0;
  void sync();  // durable on return; else the process ends (fsync.h)
  virtual Result<int64_t> size() = 0;
  // Marks the file as in use, until this is destroyed or the process ends. kExists while another
  // File has it marked; kUnsupported where the file system cannot tell.
  virtual Status lock();

 private:
  virtual Status try_sync() = 0;
};

// Held until destroyed, and no longer than the process lives.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class Fs {
 public:
  // kCreate: empty, replacing; kCreatePrivate: also, and for nobody but its owner when it was
  // absent; kAppend: made if absent
  enum class Mode { kRead, kCreate, kCreatePrivate, kAppend };

  virtual ~Fs() = default;
  virtual Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) = 0;
  virtual Result<FileInfo> info(const std::string& path) = 0;  // follows links
  // Names (not paths) in byte order, without . and ..
  virtual Result<std::vector<std::string>> list(const std::string& directory) = 0;
  virtual Status make_directories(const std::string& path) = 0;  // with parents; durable on return
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove(const std::string& path) = 0;  // a file or an empty directory
  void sync_directory(const std::string& path);        // its names are durable, as after File::sync
  virtual Result<Space> space(const std::string& path) = 0;
  // One holder at a time: over all processes of the machine in real_fs(), within this process
  // elsewhere. kExists while another holds it. The file is made if absent, and stays.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path);

  // True the first time that this program asks about a directory: for what is done once in each.
  bool first_visit(const std::string& directory);

  bool exists(const std::string& path);  // throws Error where that cannot be told
  // Whole files. kTooLarge beyond `limit` bytes.
  Result<std::string> read(const std::string& path, int64_t limit = int64_t{1} << 40);

 protected:
  void forget_visits();  // another program begins

 private:
  virtual Status try_sync_directory(const std::string& path) = 0;

  std::mutex visits_mutex_;
  std::set<std::string> visits_;
};

Fs& real_fs();

// Path arithmetic without touching the disk.
std::string join(std::string_view directory, std::string_view name);
std::string parent_of(std::string_view path);     // "" for a bare name
std::string name_of_path(std::string_view path);  // after the last slash
std::string extension_of(std::string_view path);  // lower case, with the dot; "" if none

}  // namespace ndtrain
