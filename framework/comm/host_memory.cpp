#include "framework/comm/host_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

#include "framework/core/fs.h"
#include "framework/core/log.h"
#include "framework/core/memory.h"

namespace ndtrain {
namespace {

constexpr size_t kHead = 64;  // bytes before the others: the number in the name
constexpr int kAttempts = 8;  // at a file that nobody takes for left over before it is locked
constexpr std::string_view kPrefix = "ndtrain-";

// Of segments of this user.
std::string prefix_of_user() { return fmt::format("{}{}-", kPrefix, ::geteuid()); }

Status segment_failed(const std::string& path, const char* what, int error) {
  const bool is_full = error == ENOSPC || error == ENOMEM || error == EDQUOT;
  const Code code = is_full ? Code::kNoSpace : error == ENOENT ? Code::kNotFound : Code::kIo;
  return {code,
          fmt::format("{}: cannot {}: {}", path, what, std::generic_category().message(error))};
}

uint64_t random_number() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

std::string number_in(const std::string& name) { return name.substr(name.rfind('-') + 1); }

// Those of processes that have ended: nobody holds their locks.
void remove_left_over(const std::string& directory) {
  const Result<std::vector<std::string>> names = real_fs().list(directory);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!name.starts_with(prefix_of_user())) continue;
    const std::string path = join(directory, name);
    const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::unlink(path.c_str()) == 0) {
      log::info("{} was left over by a process that has died: removed", path);
    }
    ::close(fd);
  }
}

// A file of that name, with this process's lock on it. kExists: somebody has taken it for left over
// before it was locked.
Result<int> create_locked(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return segment_failed(path, "create it", errno);
  const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  const int error = errno;
  struct stat s;
  if (locked && ::fstat(fd, &s) == 0 && s.st_nlink > 0) return fd;
  ::unlink(path.c_str());
  ::close(fd);
  if (!locked && error != EWOULDBLOCK) return segment_failed(path, "lock it", error);
  return Status(Code::kExists, path + " was taken for left over");
}

int allocate(int fd, size_t bytes) {
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  return error;
}

}  // namespace

Result<std::unique_ptr<HostMemory>> HostMemory::make(size_t bytes, const std::string& directory) {
  remove_left_over(directory);
  // What is taken of a tmpfs is memory, and who takes more than there is may be killed for it.
  const int64_t available = available_memory();
  if (available > 0 && bytes > static_cast<size_t>(available)) {
    return Status(Code::kNoSpace, fmt::format("{}: {} bytes are more than the {} of memory that "
                                              "are available",
                                              directory, bytes, available));
  }
  std::unique_ptr<HostMemory> made;
  Status created(Code::kExists, "");
  for (int attempt = 0; created.code() == Code::kExists && attempt < kAttempts; ++attempt) {
    const std::string name =
        fmt::format("{}{}-{:016x}", prefix_of_user(), ::getpid(), random_number());
    made.reset(new HostMemory(name, join(directory, name)));
    const Result<int> fd = create_locked(made->path_);
    created = fd.status();
    if (fd.ok()) made->fd_ = *fd;
  }
  if (!created.ok()) return created;
  made->is_maker_ = true;
  if (const int error = allocate(made->fd_, kHead + bytes); error != 0) {
    return segment_failed(made->path_, "take its memory", error);
  }
  if (Status s = made->map(bytes); !s.ok()) return s;
  const std::string number = number_in(made->name_);
  std::memcpy(made->all_, number.data(), number.size());
  return made;
}

Result<std::unique_ptr<HostMemory>> HostMemory::open(const std::string& name, size_t bytes,
                                                     const std::string& directory) {
  std::unique_ptr<HostMemory> opened(new HostMemory(name, join(directory, name)));
  const Status another(Code::kCorrupt, opened->path_ + " is not the segment that was made");
  const std::string number = number_in(name);
  if (!name.starts_with(kPrefix) || name.find('/') != std::string::npos || number.size() > kHead) {
    return another;
  }
  opened->fd_ = ::open(opened->path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (opened->fd_ < 0) return segment_failed(opened->path_, "open it", errno);
  struct stat s;
  if (::fstat(opened->fd_, &s) != 0) return segment_failed(opened->path_, "stat it", errno);
  // Behind the end of a file there is no memory.
  if (!S_ISREG(s.st_mode) || s.st_size != static_cast<off_t>(kHead + bytes)) return another;
  if (Status mapped = opened->map(bytes); !mapped.ok()) return mapped;
  if (std::memcmp(opened->all_, number.data(), number.size()) != 0) return another;
  opened->unlink();
  return opened;
}

Status HostMemory::map(size_t bytes) {
  void* const at = ::mmap(nullptr, kHead + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (at == MAP_FAILED) return segment_failed(path_, "map it", errno);
  all_ = static_cast<std::byte*>(at);
  size_ = kHead + bytes;
  return {};
}

void HostMemory::unlink() {
  if (fd_ < 0) return;
  if (is_maker_) ::unlink(path_.c_str());
  ::close(std::exchange(fd_, -1));
}

HostMemory::~HostMemory() {
  unlink();
  if (all_) ::munmap(all_, size_);
}

std::span<std::byte> HostMemory::bytes() const { return {all_ + kHead, size_ - kHead}; }

}  // namespace ndtrain
