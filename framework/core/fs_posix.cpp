#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "framework/core/fs.h"

namespace ndtrain {
namespace {

Code code_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return Code::kNotFound;
    case EEXIST:
    case ENOTEMPTY:
      return Code::kExists;
    case ENOSPC:
    case EDQUOT:
      return Code::kNoSpace;
    case EFBIG:
    case ENAMETOOLONG:
      return Code::kTooLarge;
    default:
      return Code::kIo;
  }
}

Status failed(const char* what, const std::string& path, int error) {
  return {code_of(error),
          path + ": cannot " + what + ": " + std::generic_category().message(error)};
}

// Repeats a call that a signal interrupted.
template <typename F>
auto uninterrupted(F call) {
  auto r = call();
  while (r == -1 && errno == EINTR) r = call();
  return r;
}

// The current directory has no name of its own in path arithmetic.
const char* directory_name(const std::string& path) { return path.empty() ? "." : path.c_str(); }

Status fsync_of(int fd, const std::string& path) {
  if (uninterrupted([&] { return ::fsync(fd); }) != 0) return failed("fsync", path, errno);
  return {};
}

class PosixFile final : public File {
 public:
  PosixFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~PosixFile() override { ::close(fd_); }
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  Result<size_t> read_at(int64_t offset, std::span<std::byte> to) override {
    size_t done = 0;
    while (done < to.size()) {
      const ssize_t n = uninterrupted([&] {
        return ::pread(fd_, to.data() + done, to.size() - done,
                       offset + static_cast<int64_t>(done));
      });
      if (n < 0) return failed("read", path_, errno);
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

  Status append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = uninterrupted([&] { return ::write(fd_, bytes.data(), bytes.size()); });
      if (n < 0) return failed("write", path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  Status truncate(int64_t size) override {
    if (uninterrupted([&] { return ::ftruncate(fd_, size); }) != 0) {
      return failed("truncate", path_, errno);
    }
    return {};
  }

  Result<int64_t> size() override {
    struct stat s;
    if (::fstat(fd_, &s) != 0) return failed("stat", path_, errno);
    return static_cast<int64_t>(s.st_size);
  }

  Status lock() override {
    if (uninterrupted([&] { return ::flock(fd_, LOCK_EX | LOCK_NB); }) == 0) return {};
    if (errno == EWOULDBLOCK) return {Code::kExists, path_ + ": is in use"};
    return {Code::kUnsupported,
            path_ + ": cannot be locked: " + std::generic_category().message(errno)};
  }

 private:
  Status try_sync() override { return fsync_of(fd_, path_); }

  const int fd_;
  const std::string path_;
};

class PosixLock final : public FileLock {
 public:
  explicit PosixLock(int fd) : fd_(fd) {}
  ~PosixLock() override { ::close(fd_); }
  PosixLock(const PosixLock&) = delete;
  PosixLock& operator=(const PosixLock&) = delete;

 private:
  const int fd_;
};

class PosixFs final : public Fs {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override {
    // O_NONBLOCK: a FIFO among the photos must not hang us; regular files ignore it.
    int flags = O_CLOEXEC;
    if (mode == Mode::kRead) flags |= O_RDONLY | O_NONBLOCK;
    if (mode == Mode::kCreate || mode == Mode::kCreatePrivate) {
      flags |= O_RDWR | O_APPEND | O_CREAT | O_TRUNC;
    }
    if (mode == Mode::kAppend) flags |= O_RDWR | O_APPEND | O_CREAT;
    const mode_t access = mode == Mode::kCreatePrivate ? 0600 : 0666;
    const int fd = uninterrupted([&] { return ::open(path.c_str(), flags, access); });
    if (fd < 0) return failed(mode == Mode::kRead ? "open" : "create", path, errno);
    auto file = std::make_unique<PosixFile>(fd, path);
    if (mode == Mode::kRead) {
      struct stat s;
      if (::fstat(fd, &s) != 0) return failed("stat", path, errno);
      if (!S_ISREG(s.st_mode)) {
        return Status(Code::kUnsupported, path + ": cannot open: not a regular file");
      }
    }
    return Result<std::unique_ptr<File>>(std::move(file));
  }

  Result<FileInfo> info(const std::string& path) override {
    struct stat s;
    if (::stat(directory_name(path), &s) != 0) return failed("stat", path, errno);
    return FileInfo{.size = s.st_size,
                    .mtime_ns = int64_t{s.st_mtim.tv_sec} * 1'000'000'000 + s.st_mtim.tv_nsec,
                    .inode = s.st_ino,
                    .is_directory = S_ISDIR(s.st_mode)};
  }

  Result<std::vector<std::string>> list(const std::string& directory) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(directory_name(directory)), ::closedir);
    if (!dir) return failed("list", directory, errno);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(dir.get())) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    if (errno != 0) return failed("list", directory, errno);
    std::sort(names.begin(), names.end());
    return names;
  }

  Status make_directories(const std::string& path) override {
    Result<FileInfo> there = info(path);
    if (there.ok()) {
      if (there->is_directory) return {};
      return Status(Code::kExists, path + ": cannot create directory: a file has this name");
    }
    if (there.status().code() != Code::kNotFound) return there.status();
    const std::string parent = parent_of(path);
    if (parent != path) {
      if (Status s = make_directories(parent); !s.ok()) return s;
    }
    if (::mkdir(path.c_str(), 0777) != 0) {
      // Somebody else may have made it meanwhile; "a/b/" has made it as its own parent.
      if (errno == EEXIST) return {};
      return failed("create directory", path, errno);
    }
    sync_directory(parent);
    return {};
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return failed("rename", from + " -> " + to, errno);
    return {};
  }

  Status remove(const std::string& path) override {
    if (::remove(path.c_str()) != 0) return failed("remove", path, errno);
    return {};
  }

  Result<Space> space(const std::string& path) override {
    struct statvfs s;
    if (uninterrupted([&] { return ::statvfs(directory_name(path), &s); }) != 0) {
      return failed("measure the volume", path, errno);
    }
    const auto block = static_cast<int64_t>(s.f_frsize);
    return Space{.total = block * static_cast<int64_t>(s.f_blocks),
                 .free = block * static_cast<int64_t>(s.f_bavail)};
  }

  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    const int fd =
        uninterrupted([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); });
    if (fd < 0) return failed("create", path, errno);
    auto held = std::make_unique<PosixLock>(fd);
    if (uninterrupted([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) != 0) {
      if (errno != EWOULDBLOCK) return failed("lock", path, errno);
      return Status(Code::kExists, path + ": is locked by another process");
    }
    return Result<std::unique_ptr<FileLock>>(std::move(held));
  }

 private:
  Status try_sync_directory(const std::string& path) override {
    const int fd = uninterrupted(
        [&] { return ::open(directory_name(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (fd < 0) return failed("open directory", path, errno);
    const Status s = fsync_of(fd, path);
    ::close(fd);
    return s;
  }
};

}  // namespace

Fs& real_fs() {
  static PosixFs fs;
  return fs;
}

}  // namespace ndtrain
