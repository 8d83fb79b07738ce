// A file descriptor that is closed with what holds it.
#pragma once

#include <unistd.h>

namespace ndtrain {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}  // below 0: none
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  const int fd_;
};

}  // namespace ndtrain
