#include "framework/testing/memory_net.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace ndtrain {

using std::chrono::milliseconds;

namespace {
constexpr int kDialer = 0;
constexpr int kListener = 1;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
}  // namespace

// What flows between two ends; [i] is what end i has yet to read. Under State::mutex.
struct MemoryNet::Connection {
  std::string unread[2];
  bool closed[2] = {false, false};  // by end i
  bool broken = false;
  int64_t written = 0, cut_after = kNever;

  void cut(size_t to_listener, size_t to_dialer) {
    if (broken) return;
    broken = true;
    unread[kListener].resize(std::min(unread[kListener].size(), to_listener));
    unread[kDialer].resize(std::min(unread[kDialer].size(), to_dialer));
  }
};

struct MemoryNet::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::deque<std::unique_ptr<Stream>>> listeners;  // and who waits there
  std::vector<std::weak_ptr<Connection>> connections;
  int64_t cut_next_after = kNever;
  int next_port = 20000;
  bool down = false;

  template <typename F>
  bool wait(std::unique_lock<std::mutex>& lock, milliseconds timeout, F ready) {
    const milliseconds bounded =
        std::clamp(timeout, milliseconds(0), milliseconds(std::chrono::hours(24 * 365)));
    return changed.wait_for(lock, bounded, ready);
  }
};

class MemoryNet::End final : public Stream {
 public:
  End(std::shared_ptr<State> state, std::shared_ptr<Connection> connection, int side,
      std::string peer)
      : state_(std::move(state)),
        connection_(std::move(connection)),
        side_(side),
        peer_(std::move(peer)) {}
  ~End() override { close(); }

  Result<size_t> read(std::span<std::byte> to, milliseconds timeout) override {
    if (to.empty()) throw Error("Stream: read into an empty buffer");
    std::unique_lock lock(state_->mutex);
    Connection& c = *connection_;
    std::string& unread = c.unread[side_];
    const bool ready = state_->wait(
        lock, timeout, [&] { return !unread.empty() || c.broken || c.closed[0] || c.closed[1]; });
    if (!ready) return Status(Code::kCancelled, peer_ + ": nothing came in time");
    if (c.closed[side_]) return size_t{0};
    if (unread.empty()) {
      if (c.broken) return Status(Code::kIo, peer_ + ": the connection was cut");
      return size_t{0};
    }
    const size_t n = std::min(to.size(), unread.size());
    std::copy_n(std::as_bytes(std::span(unread)).begin(), n, to.begin());
    unread.erase(0, n);
    return n;
  }

  Status write(std::span<const std::byte> bytes) override {
    const std::lock_guard lock(state_->mutex);
    Connection& c = *connection_;
    if (c.broken) return {Code::kIo, peer_ + ": the connection was cut"};
    if (c.closed[0] || c.closed[1]) return {Code::kIo, peer_ + ": the connection is closed"};
    const auto room = static_cast<uint64_t>(c.cut_after - c.written);
    const size_t n = std::min<uint64_t>(bytes.size(), room);
    c.unread[1 - side_].append(reinterpret_cast<const char*>(bytes.data()), n);
    c.written += static_cast<int64_t>(n);
    c.broken = n < bytes.size();
    state_->changed.notify_all();
    if (c.broken) return {Code::kIo, peer_ + ": the connection was cut"};
    return {};
  }

  void close() override {
    const std::lock_guard lock(state_->mutex);
    connection_->closed[side_] = true;
    state_->changed.notify_all();
  }

  std::string peer() const override { return peer_; }

 private:
  const std::shared_ptr<State> state_;
  const std::shared_ptr<Connection> connection_;
  const int side_;
  const std::string peer_;
};

class MemoryNet::Door final : public Listener {
 public:
  Door(std::shared_ptr<State> state, std::string address)
      : state_(std::move(state)), address_(std::move(address)) {}

  ~Door() override {
    // Those still waiting are closed outside the lock, which closing takes.
    std::deque<std::unique_ptr<Stream>> waiting;
    const std::lock_guard lock(state_->mutex);
    waiting.swap(state_->listeners[address_]);
    state_->listeners.erase(address_);
  }

  Result<std::unique_ptr<Stream>> accept(milliseconds timeout) override {
    std::unique_lock lock(state_->mutex);
    auto& waiting = state_->listeners[address_];
    if (!state_->wait(lock, timeout, [&] { return !waiting.empty(); })) {
      return Status(Code::kCancelled, address_ + ": nobody came in time");
    }
    std::unique_ptr<Stream> stream = std::move(waiting.front());
    waiting.pop_front();
    return stream;
  }

  std::string address() const override { return address_; }

 private:
  const std::shared_ptr<State> state_;
  const std::string address_;
};

MemoryNet::MemoryNet() : state_(std::make_shared<State>()) {}
MemoryNet::~MemoryNet() = default;

Result<std::unique_ptr<Stream>> MemoryNet::dial(const std::string& address) {
  const std::lock_guard lock(state_->mutex);
  const auto it = state_->listeners.find(address);
  if (state_->down || it == state_->listeners.end()) {
    return Status(Code::kIo, address + ": cannot connect: nobody listens there");
  }
  const size_t number = state_->connections.size();
  auto connection = std::make_shared<Connection>();
  connection->cut_after = std::exchange(state_->cut_next_after, kNever);
  state_->connections.push_back(connection);
  it->second.push_back(
      std::make_unique<End>(state_, connection, kListener, "connection " + std::to_string(number)));
  state_->changed.notify_all();
  return std::unique_ptr<Stream>(std::make_unique<End>(state_, connection, kDialer, address));
}

Result<std::unique_ptr<Listener>> MemoryNet::listen(const std::string& address) {
  const std::lock_guard lock(state_->mutex);
  std::string name = address;
  if (name.ends_with(":0")) {
    name.replace(name.size() - 1, 1, std::to_string(state_->next_port++));
  }
  if (!state_->listeners.try_emplace(name).second) {
    return Status(Code::kExists, name + ": cannot listen: somebody does already");
  }
  return std::unique_ptr<Listener>(std::make_unique<Door>(state_, std::move(name)));
}

size_t MemoryNet::connections() const {
  const std::lock_guard lock(state_->mutex);
  return state_->connections.size();
}

void MemoryNet::cut(size_t connection, size_t to_listener, size_t to_dialer) {
  const std::lock_guard lock(state_->mutex);
  if (connection >= state_->connections.size()) {
    throw Error("MemoryNet: there is no connection ", connection);
  }
  if (const auto c = state_->connections[connection].lock()) c->cut(to_listener, to_dialer);
  state_->changed.notify_all();
}

void MemoryNet::cut_all() {
  const std::lock_guard lock(state_->mutex);
  for (const auto& weak : state_->connections) {
    if (const auto c = weak.lock()) c->cut(0, 0);
  }
  state_->changed.notify_all();
}

void MemoryNet::cut_next_after(int64_t bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->cut_next_after = bytes;
}

void MemoryNet::set_down(bool down) {
  const std::lock_guard lock(state_->mutex);
  state_->down = down;
}

}  // namespace ndtrain
