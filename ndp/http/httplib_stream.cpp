#include "ndp/http/httplib_stream.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace ndtrain {

bool HttplibStream::wait(std::chrono::milliseconds timeout) {
  if (at_ < end_) return true;
  if (ended_ || !trouble_.ok()) return false;
  const Result<size_t> n = stream_.read(buffer_, timeout);
  if (!n.ok()) {
    trouble_ = n.status();
    return false;
  }
  at_ = 0;
  end_ = *n;
  ended_ = *n == 0;
  return !ended_;
}

bool HttplibStream::hung_up() {
  if (at_ < end_) return false;
  if (wait(std::chrono::milliseconds(0))) return false;
  if (trouble_.code() == Code::kCancelled) trouble_ = {};  // it is only silent
  return ended_ || !trouble_.ok();
}

ssize_t HttplibStream::read(char* to, size_t size) {
  if (allowed_ <= 0) return -1;
  if (!wait(patience_)) return ended_ ? 0 : -1;
  const size_t n = std::min({size, end_ - at_, static_cast<size_t>(allowed_)});
  std::memcpy(to, buffer_.data() + at_, n);
  at_ += n;
  allowed_ -= static_cast<int64_t>(n);
  return static_cast<ssize_t>(n);
}

ssize_t HttplibStream::write(const char* from, size_t size) {
  trouble_ = stream_.write(std::as_bytes(std::span(from, size)));
  return trouble_.ok() ? static_cast<ssize_t>(size) : -1;
}

void HttplibStream::drain(int64_t bytes, std::chrono::milliseconds patience) {
  while (bytes > 0 && wait(patience)) {
    bytes -= static_cast<int64_t>(end_ - at_);
    at_ = end_;
  }
}

}  // namespace ndtrain
