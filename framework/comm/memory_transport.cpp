#include "framework/comm/memory_transport.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace ndtrain {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kLongest = std::chrono::hours(1);  // no clock's end is near

// What all ranks see, under one mutex.
class MemoryRanks {
 public:
  explicit MemoryRanks(int ranks) : ranks_(static_cast<size_t>(ranks)) {
    for (Rank& r : ranks_) r.ended.resize(ranks_.size());
  }

  int size() const { return static_cast<int>(ranks_.size()); }

  uint64_t send(int from, int to, uint64_t tag, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    call(from, to);
    return post(from, to, {from, to, tag}, &Channel::sends,
                {.request = ++requests_, .generation = at(from).generation, .from = bytes});
  }

  uint64_t receive(int from, int to, uint64_t tag, std::span<std::byte> into) {
    const std::lock_guard lock(mutex_);
    return post(to, from, {from, to, tag}, &Channel::receives,
                {.request = ++requests_, .generation = at(to).generation, .into = into});
  }

  void poll(int rank, std::vector<Transport::Done>& done, nanoseconds patience) {
    std::unique_lock lock(mutex_);
    Rank& r = at(rank);
    r.changed.wait_for(lock, std::min(patience, kLongest),
                       [&] { return !r.done.empty() || r.woken; });
    r.woken = false;
    std::ranges::move(r.done, std::back_inserter(done));
    r.done.clear();
  }

  void wake(int rank) {
    const std::lock_guard lock(mutex_);
    at(rank).woken = true;
    at(rank).changed.notify_one();
  }

  void cancel(int rank) {
    const std::lock_guard lock(mutex_);
    withdraw(rank, {Code::kCancelled, "cancelled"});
  }

  void begin_generation(int rank, uint32_t generation, std::span<const int> members) {
    const std::lock_guard lock(mutex_);
    Rank& r = at(rank);
    if (generation <= r.generation || std::ranges::count(members, rank) == 0) {
      throw Error("Transport: rank ", rank, " cannot go from generation ", r.generation, " to ",
                  generation, " of ", members.size(), " members");
    }
    r.generation = generation;
    withdraw(rank, {Code::kCancelled, "generation " + std::to_string(generation) + " began"});
    for (int other = 0; other < size(); ++other) {
      if (other != rank && std::ranges::count(members, other) == 0) {
        end(rank, other, Code::kIo, " is not in generation " + std::to_string(generation));
      }
    }
    // Messages of this generation may have come already, of peers that were quicker.
    for (auto& [way, channel] : channels_) {
      if (way.to == rank) match(way, channel);
    }
  }

  uint32_t later_generation(int rank) {
    const std::lock_guard lock(mutex_);
    const Rank& r = at(rank);
    return r.latest > r.generation ? r.latest : 0;
  }

  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    withdraw(rank, {Code::kCancelled, "left"});
    for (int other = 0; other < size(); ++other) {
      if (other != rank) end(rank, other, Code::kIo, " has left");
    }
  }

 private:
  struct Way {
    int from = 0, to = 0;
    uint64_t tag = 0;
    auto operator<=>(const Way&) const = default;
  };
  struct Post {
    uint64_t request = 0;
    uint32_t generation = 0;
    std::span<const std::byte> from = {};
    std::span<std::byte> into = {};
  };
  struct Channel {
    std::deque<Post> sends, receives;
  };
  struct Rank {
    std::condition_variable changed;
    bool woken = false;
    uint32_t generation = 0, latest = 0;  // its own; of messages to it
    std::vector<Status> ended;            // with whom, and why
    std::vector<Transport::Done> done;
  };

  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }

  // `to` hears of a generation that it has not begun, unless its connection has ended.
  void call(int from, int to) {
    if (to < 0 || to >= size() || !at(from).ended[static_cast<size_t>(to)].ok()) return;
    Rank& r = at(to);
    if (at(from).generation <= std::max(r.latest, r.generation)) return;
    r.latest = at(from).generation;
    r.woken = true;
    r.changed.notify_one();
  }

  void finish(int rank, uint64_t request, const Status& status) {
    at(rank).done.push_back({request, status});
    at(rank).changed.notify_one();
  }

  uint64_t post(int rank, int peer, const Way& way, std::deque<Post> Channel::*side, Post post) {
    if (peer < 0 || peer >= size() || peer == rank) {
      throw Error("Transport: rank ", peer, " is no peer of rank ", rank, " of ", size());
    }
    const Status& ended = at(rank).ended[static_cast<size_t>(peer)];
    if (!ended.ok()) {
      finish(rank, post.request, ended);
      return post.request;
    }
    Channel& channel = channels_[way];
    (channel.*side).push_back(post);
    match(way, channel);
    if (channel.sends.empty() && channel.receives.empty()) channels_.erase(way);
    return post.request;
  }

  void match(const Way& way, Channel& channel) {
    while (!channel.sends.empty() && !channel.receives.empty()) {
      const Post send = channel.sends.front(), receive = channel.receives.front();
      if (send.generation > receive.generation) return;
      channel.sends.pop_front();
      if (send.generation == receive.generation) {
        channel.receives.pop_front();
        if (send.from.size() != receive.into.size()) return mismatch(way, send, receive);
        if (!send.from.empty()) {
          std::memcpy(receive.into.data(), send.from.data(), send.from.size());
        }
        finish(way.to, receive.request, {});
      }
      finish(way.from, send.request, {});
    }
  }

  void mismatch(const Way& way, const Post& send, const Post& receive) {
    const Status status(Code::kCorrupt, "rank " + std::to_string(way.from) + ": message " +
                                            std::to_string(way.tag) + " to rank " +
                                            std::to_string(way.to) + " has " +
                                            std::to_string(send.from.size()) + " bytes, not " +
                                            std::to_string(receive.into.size()));
    finish(way.from, send.request, status);
    finish(way.to, receive.request, status);
    end_between(way.from, way.to, status, status);
  }

  // `rank` ends the connection with `other`, where it still stands.
  void end(int rank, int other, Code code, const std::string& why) {
    if (!at(rank).ended[static_cast<size_t>(other)].ok()) return;
    end_between(rank, other, {code, "rank " + std::to_string(other) + why},
                {code, "rank " + std::to_string(rank) + " has left"});
  }

  void end_between(int a, int b, const Status& for_a, const Status& for_b) {
    at(a).ended[static_cast<size_t>(b)] = for_a;
    at(b).ended[static_cast<size_t>(a)] = for_b;
    for (auto& [way, channel] : channels_) {
      const bool forth = way.from == a && way.to == b, back = way.from == b && way.to == a;
      if (!forth && !back) continue;
      for (const Post& p : channel.sends) finish(way.from, p.request, forth ? for_a : for_b);
      for (const Post& p : channel.receives) finish(way.to, p.request, forth ? for_b : for_a);
      channel = {};
    }
  }

  // What the rank has posted ends.
  void withdraw(int rank, const Status& status) {
    for (auto& [way, channel] : channels_) {
      if (way.from == rank) finish_all(rank, channel.sends, status);
      if (way.to == rank) finish_all(rank, channel.receives, status);
    }
    std::erase_if(channels_, [](const auto& entry) {
      return entry.second.sends.empty() && entry.second.receives.empty();
    });
  }

  void finish_all(int rank, std::deque<Post>& posts, const Status& status) {
    for (const Post& p : posts) finish(rank, p.request, status);
    posts.clear();
  }

  std::mutex mutex_;
  std::deque<Rank> ranks_;
  std::map<Way, Channel> channels_;
  uint64_t requests_ = 0;
};

class MemoryTransport final : public Transport {
 public:
  MemoryTransport(std::shared_ptr<MemoryRanks> ranks, int rank)
      : ranks_(std::move(ranks)), rank_(rank) {}
  ~MemoryTransport() override { ranks_->leave(rank_); }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_->size(); }
  std::string peer(int rank) const override { return "rank " + std::to_string(rank); }
  Request send(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    return ranks_->send(rank_, to, tag, bytes);
  }
  Request receive(int from, uint64_t tag, std::span<std::byte> into) override {
    return ranks_->receive(from, rank_, tag, into);
  }
  void poll(std::vector<Done>& done, nanoseconds patience) override {
    ranks_->poll(rank_, done, patience);
  }
  void wake() override { ranks_->wake(rank_); }
  void cancel() override { ranks_->cancel(rank_); }
  void begin_generation(uint32_t generation, std::span<const int> members) override {
    ranks_->begin_generation(rank_, generation, members);
  }
  uint32_t later_generation() override { return ranks_->later_generation(rank_); }

 private:
  const std::shared_ptr<MemoryRanks> ranks_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> memory_transports(int ranks) {
  if (ranks < 1) throw Error("memory_transports: ", ranks, " ranks; at least 1 is needed");
  const auto shared = std::make_shared<MemoryRanks>(ranks);
  std::vector<std::unique_ptr<Transport>> all;
  for (int r = 0; r < ranks; ++r) all.push_back(std::make_unique<MemoryTransport>(shared, r));
  return all;
}

}  // namespace ndtrain
