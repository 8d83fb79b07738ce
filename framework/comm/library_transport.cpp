#include "framework/comm/library_transport.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "framework/comm/plugin_messages.h"
#include "framework/comm/poll_pause.h"

namespace ndtrain {
namespace {

using std::chrono::nanoseconds;

constexpr Transport::Request kOurs = Transport::Request{1} << 63;  // not one of `messages`
constexpr Transport::Request kRefused = kOurs | kOurs >> 1;        // nor given to the library
constexpr uint64_t kNeverSent = ~uint64_t{0};                      // a tag
constexpr nanoseconds kForever = std::chrono::hours(1);            // no clock's end is near

class LibraryTransport final : public Transport {
 public:
  LibraryTransport(std::unique_ptr<Transport> messages, const ndt_comm_plugin& plugin,
                   ndt_comm* comm);
  ~LibraryTransport() override;

  int rank() const override { return messages_->rank(); }
  int ranks() const override { return messages_->ranks(); }
  std::string peer(int rank) const override { return messages_->peer(rank); }
  Request send(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    return messages_->send(to, tag, bytes);
  }
  Request send_bulk(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    return messages_->send_bulk(to, tag, bytes);
  }
  Request receive(int from, uint64_t tag, std::span<std::byte> into) override {
    return messages_->receive(from, tag, into);
  }
  bool has_collectives() const override { return true; }
  bool collects_on_device() const override { return true; }
  Request collect(std::span<const LibraryCall> calls, void* after) override;
  void poll(std::vector<Done>& done, nanoseconds patience) override;
  void wake() override {
    woken_ = true;
    messages_->wake();
  }
  void cancel() override;
  void begin_generation(uint32_t generation, std::span<const int> members) override;
  uint32_t later_generation() override { return messages_->later_generation(); }

 private:
  void watch();
  void stop_watching();
  void end_library(const Status& why);
  void step(std::vector<Done>& done, nanoseconds patience);

  const std::unique_ptr<Transport> messages_;
  PluginMessages library_;
  std::set<PluginMessages::Id> under_way_;
  std::set<Request> watched_;    // of each peer a receive of nothing, which ends when it is lost
  std::set<Request> unwatched_;  // that end by being cancelled
  Status lost_;                  // why the library is not called any more
  std::vector<Done> ended_;
  Request refused_ = kRefused;
  PollPause pause_;
  std::atomic<bool> woken_ = false;
};

LibraryTransport::LibraryTransport(std::unique_ptr<Transport> messages,
                                   const ndt_comm_plugin& plugin, ndt_comm* comm)
    : messages_(std::move(messages)), library_(plugin, comm) {
  if (!plugin.device_memory) throw Error(plugin.name, ": its memory is not a device's");
  if (library_.rank() != rank() || library_.ranks() != ranks()) {
    throw Error(plugin.name, ": rank ", library_.rank(), " of ", library_.ranks(), " is not rank ",
                rank(), " of ", ranks());
  }
  watch();
}

LibraryTransport::~LibraryTransport() {
  if (lost_.ok() && under_way_.empty()) library_.close();
}

void LibraryTransport::watch() {
  for (int r = 0; r < ranks(); ++r) {
    if (r != rank()) watched_.insert(messages_->receive(r, kNeverSent, {}));
  }
}

void LibraryTransport::stop_watching() {
  unwatched_.merge(watched_);
  watched_.clear();
}

// All that it has under way ends so.
void LibraryTransport::end_library(const Status& why) {
  if (!lost_.ok()) return;
  lost_ = why;
  for (const PluginMessages::Id id : under_way_) ended_.push_back({kOurs | id, why});
  under_way_.clear();
  library_.abandon();
}

Transport::Request LibraryTransport::collect(std::span<const LibraryCall> calls, void* after) {
  pause_.stir();
  if (!lost_.ok()) {
    ended_.push_back({++refused_, lost_});
    return refused_;
  }
  const PluginMessages::Id id = library_.collect(calls, after);
  under_way_.insert(id);
  return kOurs | id;
}

// What there is to do, waiting for messages only.
void LibraryTransport::step(std::vector<Done>& done, nanoseconds patience) {
  std::vector<Done> messages;
  messages_->poll(messages, patience);
  for (Done& d : messages) {
    if (unwatched_.erase(d.request) > 0) continue;
    if (watched_.erase(d.request) > 0) {
      end_library(d.status);
    } else {
      done.push_back(std::move(d));
    }
  }
  std::vector<PluginMessages::Ended> ended;
  library_.take_ended(ended);
  for (PluginMessages::Ended& e : ended) {
    if (under_way_.erase(e.id) > 0) ended_.push_back({kOurs | e.id, std::move(e.status)});
  }
  if (!ended_.empty()) pause_.stir();
  std::ranges::move(ended_, std::back_inserter(done));
  ended_.clear();
}

void LibraryTransport::poll(std::vector<Done>& done, nanoseconds patience) {
  const nanoseconds until = PollPause::now() + std::min(patience, kForever);
  const size_t had = done.size();
  step(done, nanoseconds(0));
  while (!woken_.exchange(false) && done.size() == had && PollPause::now() < until) {
    const nanoseconds left = until - PollPause::now();
    const nanoseconds wait = under_way_.empty() ? left : pause_.length(left);
    if (wait.count() <= 0) std::this_thread::yield();
    step(done, std::max(wait, nanoseconds(0)));
  }
}

void LibraryTransport::cancel() {
  stop_watching();
  if (!under_way_.empty()) end_library({Code::kCancelled, "cancelled"});
  messages_->cancel();
}

void LibraryTransport::begin_generation(uint32_t generation, std::span<const int> members) {
  stop_watching();
  if (!under_way_.empty() || std::ssize(members) != ranks()) {
    end_library({Code::kCancelled, "generation " + std::to_string(generation) + " began"});
  }
  messages_->begin_generation(generation, members);
  if (lost_.ok()) watch();
}

}  // namespace

std::unique_ptr<Transport> with_library(std::unique_ptr<Transport> messages,
                                        const ndt_comm_plugin& plugin, ndt_comm* comm) {
  return std::make_unique<LibraryTransport>(std::move(messages), plugin, comm);
}

}  // namespace ndtrain
