// A link that breaks where a test says.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "framework/core/net.h"

namespace ndtrain::testing {

// Passes connections on to an address, and breaks the first ones after so many bytes.
class BreakingRelay {
 public:
  struct Breaks {
    std::vector<int64_t> down;      // of each connection, bytes towards the dialler
    int64_t up = kNever;            // of each, bytes from it
    size_t connections = SIZE_MAX;  // later ones are not passed on
  };
  static constexpr int64_t kNever = int64_t{1} << 60;

  BreakingRelay(std::string to, Breaks breaks)
      : to_(std::move(to)),
        breaks_(std::move(breaks)),
        listener_(real_net().listen("127.0.0.1:0").or_throw()),
        thread_([this] { run(); }) {}
  ~BreakingRelay() {
    stop_ = true;
    thread_.join();
    for (const auto& stream : streams_) stream->close();
  }

  std::string address() const { return listener_->address(); }
  int64_t passed() const { return passed_; }  // bytes towards the dialler
  size_t connections() const { return connections_; }

 private:
  void run() {
    while (!stop_) {
      auto near = listener_->accept(std::chrono::milliseconds(100));
      if (!near.ok() || connections_ >= breaks_.connections) continue;
      auto far = real_net().dial(to_);
      if (!far.ok()) continue;
      const size_t i = connections_++;
      const int64_t most = i < breaks_.down.size() ? breaks_.down[i] : kNever;
      const std::shared_ptr<Stream> a = std::move(*near), b = std::move(*far);
      streams_.insert(streams_.end(), {a, b});
      threads_.emplace_back([this, a, b] { pass(*a, *b, breaks_.up, nullptr); });
      threads_.emplace_back([this, a, b, most] { pass(*b, *a, most, &passed_); });
    }
  }
  static void pass(Stream& from, Stream& to, int64_t most, std::atomic<int64_t>* count) {
    std::vector<std::byte> bytes(65536);
    while (most > 0) {
      const auto next = std::min<size_t>(bytes.size(), static_cast<size_t>(most));
      const Result<size_t> n = from.read(std::span(bytes).first(next), std::chrono::seconds(60));
      if (!n.ok() || *n == 0 || !to.write(std::span(bytes).first(*n)).ok()) break;
      most -= static_cast<int64_t>(*n);
      if (count) *count += static_cast<int64_t>(*n);
    }
    from.close();
    to.close();
  }

  const std::string to_;
  const Breaks breaks_;
  std::unique_ptr<Listener> listener_;
  std::atomic<bool> stop_ = false;
  std::atomic<size_t> connections_ = 0;
  std::atomic<int64_t> passed_ = 0;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<std::jthread> threads_;  // after streams_: they end first
  std::thread thread_;
};

}  // namespace ndtrain::testing
