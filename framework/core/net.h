// Ordered byte streams between named endpoints, injected so that a simulator can break, delay and
// cut them. An address is "host:port" or "unix:/path".
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "framework/core/status.h"

namespace ndtrain {

// One end of a connection. One thread reads while another writes.
class Stream {
 public:
  virtual ~Stream() = default;
  // Waits for at least one byte; 0 means the peer closed. kCancelled when `timeout` passes first.
  virtual Result<size_t> read(std::span<std::byte> to, std::chrono::milliseconds timeout) = 0;
  virtual Status write(std::span<const std::byte> bytes) = 0;  // all or an error
  virtual void close() = 0;                                    // wakes a blocked read
  virtual std::string peer() const = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual Result<std::unique_ptr<Stream>> accept(std::chrono::milliseconds timeout) = 0;
  virtual std::string address() const = 0;  // with the port the system chose
  // The system's, which does not block, for an event loop to wait for; -1 where there is none.
  virtual int descriptor() const { return -1; }
};

class Net {
 public:
  virtual ~Net() = default;
  virtual Result<std::unique_ptr<Stream>> dial(const std::string& address) = 0;
  virtual Result<std::unique_ptr<Listener>> listen(const std::string& address) = 0;
};

Net& real_net();

// "host" of "host:port" and of "[host]:port"; "localhost" of a unix socket.
std::string host_of(const std::string& address);

}  // namespace ndtrain
