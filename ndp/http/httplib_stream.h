// What httplib reads and writes, over a Stream of ours: so that addresses, reasons of failure and
// the waking of a blocked read are the same here as everywhere. httplib stays inside this folder's
// sources; only they include this.
#pragma once

#include <httplib.h>

#include <array>
#include <chrono>
#include <cstdint>

#include "framework/core/net.h"

namespace ndtrain {

// Belongs to one thread; `stream` is the caller's, who may close it from any thread.
class HttplibStream final : public httplib::Stream {
 public:
  // A read gives up after `patience` of silence.
  HttplibStream(ndtrain::Stream& stream, std::chrono::milliseconds patience)
      : stream_(stream), patience_(patience) {}

  // Whether there is something to read, before `timeout` has passed.
  bool wait(std::chrono::milliseconds timeout);
  // Whether the other side has gone. Waits for nothing.
  bool hung_up();
  // Reads fail after this many more bytes.
  void allow(int64_t bytes) { allowed_ = bytes; }
  // Reads and drops what comes, up to the end, a silence of `patience` or so many bytes.
  void drain(int64_t bytes, std::chrono::milliseconds patience);

  const Status& trouble() const { return trouble_; }  // why a read or write failed
  bool ended() const { return ended_; }               // the other side closed

 private:
  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, size_t size) override;
  ssize_t write(const char* from, size_t size) override;
  // For a request's headers, which nobody here looks at.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return 0; }

  ndtrain::Stream& stream_;
  const std::chrono::milliseconds patience_;
  std::array<std::byte, 16384> buffer_;
  size_t at_ = 0, end_ = 0;  // what is unread of the buffer
  int64_t allowed_ = INT64_MAX;
  bool ended_ = false;
  Status trouble_;
};

}  // namespace ndtrain
