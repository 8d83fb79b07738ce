#include "ndp/store/mapped_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "framework/core/log.h"

namespace ndtrain::ndp {
namespace {

// A file without a name of so many bytes, which are its own from now on; -1 with errno.
int make_file(const std::string& directory, size_t bytes, double left_free) {
  const int file = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return -1;
  struct statvfs volume {};
  int error = ::fstatvfs(file, &volume) == 0 ? 0 : errno;
  if (error == 0) {
    const double free = static_cast<double>(volume.f_bavail),
                 all = static_cast<double>(volume.f_blocks);
    const double blocks = static_cast<double>(bytes) / static_cast<double>(volume.f_frsize);
    if (free - blocks < left_free * all) error = ENOSPC;
  }
  if (error == 0) error = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  if (error == 0) return file;
  ::close(file);
  errno = error;
  return -1;
}

}  // namespace

int64_t MappedMemory::mapped() const {
  const std::lock_guard lock(mutex_);
  return mapped_;
}

void* MappedMemory::map(size_t bytes) {
  const int file = make_file(directory_, bytes, left_free_);
  void* block = MAP_FAILED;
  if (file >= 0) {
    block = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const int error = errno;
    ::close(file);
    errno = error;
  }
  if (block != MAP_FAILED) return block;
  const int error = errno;
  const std::lock_guard lock(mutex_);
  if (!std::exchange(told_, true)) {
    log::warn("{}: what there is of very many photos stays in memory: {}", directory_,
              std::strerror(error));
  }
  return nullptr;
}

void* MappedMemory::do_allocate(size_t bytes, size_t alignment) {
  if (bytes >= kLeast) {
    bool fits = false;
    {
      const std::lock_guard lock(mutex_);
      fits = heap_ + static_cast<int64_t>(bytes) <= on_heap_;
    }
    void* const block = fits ? nullptr : map(bytes);
    const std::lock_guard lock(mutex_);
    if (block != nullptr) {
      mapped_ += static_cast<int64_t>(bytes);
      blocks_.insert(block);
      return block;
    }
  }
  void* const block = std::pmr::new_delete_resource()->allocate(bytes, alignment);
  if (bytes >= kLeast) {
    const std::lock_guard lock(mutex_);
    heap_ += static_cast<int64_t>(bytes);
  }
  return block;
}

void MappedMemory::do_deallocate(void* block, size_t bytes, size_t alignment) {
  if (bytes >= kLeast) {
    std::unique_lock lock(mutex_);
    if (blocks_.erase(block) > 0) {
      mapped_ -= static_cast<int64_t>(bytes);
      lock.unlock();
      ::munmap(block, bytes);
      return;
    }
    heap_ -= static_cast<int64_t>(bytes);
  }
  std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
}

}  // namespace ndtrain::ndp
