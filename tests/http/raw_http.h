// Bytes to and from an HTTP server, as they are.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <string>

#include "framework/core/net.h"

namespace ndtrain::support {

class RawHttp {
 public:
  explicit RawHttp(const std::string& address) : stream_(real_net().dial(address).or_throw()) {}

  void say(std::string_view text) { try_say(text).or_throw(); }
  Status try_say(std::string_view text) { return stream_->write(std::as_bytes(std::span(text))); }
  // Everything up to and with `mark`, or to the end of the connection.
  std::string hear(std::string_view mark) {
    for (;;) {
      if (const size_t at = heard_.find(mark); at != std::string::npos) {
        const std::string text = heard_.substr(0, at + mark.size());
        heard_.erase(0, text.size());
        return text;
      }
      std::array<std::byte, 4096> bytes;
      const size_t n = stream_->read(bytes, std::chrono::seconds(30)).or_throw();
      if (n == 0) return std::exchange(heard_, {});
      heard_.append(reinterpret_cast<const char*>(bytes.data()), n);
    }
  }
  std::string hear_all() { return hear(std::string("\0\0\0", 3)); }

 private:
  std::unique_ptr<Stream> stream_;
  std::string heard_;
};

}  // namespace ndtrain::support
