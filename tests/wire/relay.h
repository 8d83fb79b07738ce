// A wire that can be cut: takes one connection and passes its bytes on to an address.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include "framework/core/net.h"

namespace ndtrain::support {

class Relay {
 public:
  // Takes no more than about `most` bytes from who dials it: then it stands still.
  explicit Relay(std::string to, const std::string& listen = "127.0.0.1:0",
                 size_t most = std::numeric_limits<size_t>::max())
      : to_(std::move(to)), most_(most), listener_(real_net().listen(listen).or_throw()) {
    thread_ = std::jthread([this] { run(); });
  }
  ~Relay() { cut(); }

  std::string address() const { return listener_->address(); }

  // Once the connection is there; both its ends see it lost.
  void cut() {
    if (thread_.joinable()) thread_.join();
    if (near_) near_->close();
    if (far_) far_->close();
    if (back_.joinable()) back_.join();
    await_still();
    near_.reset();
    far_.reset();
  }
  // Until it takes no more.
  void await_still() {
    if (thread_.joinable()) thread_.join();
    if (forth_.joinable()) forth_.join();
  }

 private:
  static constexpr std::chrono::milliseconds kDeadline{20000};

  void run() {
    auto accepted = listener_->accept(kDeadline);
    auto dialled = real_net().dial(to_);
    if (!accepted.ok() || !dialled.ok()) return;
    near_ = std::move(*accepted);
    far_ = std::move(*dialled);
    forth_ = std::jthread([this] { pass(*near_, *far_, most_); });
    back_ = std::jthread([this] { pass(*far_, *near_); });
  }

  static void pass(Stream& from, Stream& to, size_t most = std::numeric_limits<size_t>::max()) {
    std::array<std::byte, 4096> bytes;
    for (size_t passed = 0; passed < most;) {
      const Result<size_t> n = from.read(bytes, kDeadline);
      if (!n.ok() || *n == 0 || !to.write(std::span(bytes).first(*n)).ok()) return;
      passed += *n;
    }
  }

  const std::string to_;
  const size_t most_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Stream> near_, far_;
  std::jthread thread_, forth_, back_;
};

}  // namespace ndtrain::support
