// Memory that processes of one host share.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "framework/core/status.h"

namespace ndtrain {

// A segment of POSIX shared memory, mapped here; one process may map it several times. It has a
// name, by which others find it, from make() to unlink(), and none when whoever made it ends well.
// Of one that died in between the next make() removes what is left: a maker holds a lock on its
// segment, which goes with the process, whatever container it was in. One thread; what lies in the
// memory is the business of those that share it.
class HostMemory {
 public:
  // Where shm_open() has them.
  static constexpr const char* kDirectory = "/dev/shm";

  // So many bytes, of this user alone, all of them taken at once: a page that is not there would
  // end the process (SIGBUS) when it is written. kNoSpace: there are not so many.
  static Result<std::unique_ptr<HostMemory>> make(size_t bytes,
                                                  const std::string& directory = kDirectory);
  // What somebody has made. kNotFound: not on this host, or where containers have a directory each;
  // kCorrupt: it is another.
  static Result<std::unique_ptr<HostMemory>> open(const std::string& name, size_t bytes,
                                                  const std::string& directory = kDirectory);
  // Unlinks what make() has made.
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  const std::string& name() const { return name_; }  // untrusted where it comes from elsewhere
  void unlink();
  // Begins on a cache line.
  std::span<std::byte> bytes() const;

 private:
  HostMemory(std::string name, std::string path) : name_(std::move(name)), path_(std::move(path)) {}
  Status map(size_t bytes);

  const std::string name_;
  const std::string path_;
  int fd_ = -1;  // of its file, with the lock, until it has no name any more
  bool is_maker_ = false;
  std::byte* all_ = nullptr;
  size_t size_ = 0;  // of all
};

}  // namespace ndtrain
