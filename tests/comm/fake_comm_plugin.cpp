#include "tests/comm/fake_comm_plugin.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ndtrain::comm_tests {

struct FakeWorld::Hub {
  struct Post {
    uint64_t request = 0, bytes = 0;
    const void* from = nullptr;
    void* into = nullptr;
    std::vector<char> copy = {};  // of a short one, which is the fake's own from then on
    int calls = 0;                // of the receiver's test_some() since it was there
  };
  struct Channel {
    std::deque<Post> sends, receives;
  };
  using Way = std::tuple<int, int, int32_t>;  // from, to, tag

  std::mutex mutex;
  FakeFaults faults;
  std::vector<std::vector<ndt_comm_done>> done;  // of each rank
  std::map<Way, Channel> channels;
  int messages = 0, closed = 0, abandoned = 0;
};

}  // namespace ndtrain::comm_tests

struct ndt_comm {
  std::shared_ptr<ndtrain::comm_tests::FakeWorld::Hub> hub;
  int rank = 0;
};

namespace ndtrain::comm_tests {
namespace {

using Hub = FakeWorld::Hub;

constexpr uint64_t kMostBytes = 1 << 20, kShort = 8192;

void arrive(Hub& hub, const Hub::Way& way, const Hub::Post& send, const Hub::Post& receive) {
  const auto [from, to, tag] = way;
  const bool is_long = send.bytes > kShort;
  ndt_comm_done got{receive.request, NDT_COMM_OK, std::min(send.bytes, receive.bytes)};
  if (is_long && hub.faults.cut) --got.bytes;
  if (send.bytes > receive.bytes || (is_long && hub.faults.truncated)) {
    got.status = NDT_COMM_TRUNCATED;
  }
  const void* const bytes = is_long ? send.from : send.copy.data();
  if (got.bytes > 0) std::memcpy(receive.into, bytes, got.bytes);
  hub.done[static_cast<size_t>(to)].push_back(got);
  if (is_long) hub.done[static_cast<size_t>(from)].push_back({send.request, NDT_COMM_OK, 0});
  ++hub.messages;
}

void move_messages_to(Hub& hub, int rank) {
  for (auto& [way, channel] : hub.channels) {
    if (std::get<1>(way) != rank) continue;
    while (!channel.sends.empty() && !channel.receives.empty()) {
      if (channel.sends.front().calls++ < hub.faults.late) break;
      arrive(hub, way, channel.sends.front(), channel.receives.front());
      channel.sends.pop_front();
      channel.receives.pop_front();
    }
  }
}

const char* last_error() { return "the fake was told to"; }

ndt_comm_status world(const void*, size_t, int32_t, int32_t, ndt_comm**) {
  return NDT_COMM_UNSUPPORTED;
}

int32_t rank_of(const ndt_comm* comm) { return comm->rank; }
int32_t size_of_world(const ndt_comm* comm) { return static_cast<int32_t>(comm->hub->done.size()); }
const char* host(const ndt_comm*, int32_t) { return "here"; }

// What the rank has posted nobody may touch any more.
void leave(ndt_comm* comm, int Hub::*how) {
  const std::lock_guard lock(comm->hub->mutex);
  for (auto& [way, channel] : comm->hub->channels) {
    if (std::get<0>(way) == comm->rank) {
      std::erase_if(channel.sends, [](const Hub::Post& p) { return p.bytes > kShort; });
    }
    if (std::get<1>(way) == comm->rank) channel.receives.clear();
  }
  ++(*comm->hub.*how);
}

void close(ndt_comm* comm) {
  leave(comm, &Hub::closed);
  delete comm;
}

void abandon(ndt_comm* comm) {
  leave(comm, &Hub::abandoned);
  delete comm;
}

ndt_comm_status send(ndt_comm* comm, int32_t to, int32_t tag, const void* from, uint64_t bytes,
                     void*, uint64_t request) {
  const std::lock_guard lock(comm->hub->mutex);
  if (comm->hub->faults.refuses_sends) return NDT_COMM_INVALID;
  if (bytes > kMostBytes) return NDT_COMM_INVALID;
  Hub::Post post{.request = request, .bytes = bytes, .from = from};
  if (bytes <= kShort) {
    post.copy.assign(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    comm->hub->done[static_cast<size_t>(comm->rank)].push_back({request, NDT_COMM_OK, 0});
  }
  comm->hub->channels[{comm->rank, to, tag}].sends.push_back(std::move(post));
  return NDT_COMM_OK;
}

ndt_comm_status receive(ndt_comm* comm, int32_t from, int32_t tag, void* into, uint64_t bytes,
                        void*, uint64_t request) {
  const std::lock_guard lock(comm->hub->mutex);
  if (bytes > kMostBytes) return NDT_COMM_INVALID;
  comm->hub->channels[{from, comm->rank, tag}].receives.push_back(
      {.request = request, .bytes = bytes, .into = into});
  return NDT_COMM_OK;
}

ndt_comm_status test_some(ndt_comm* comm, ndt_comm_done* done, int32_t room, int32_t* n) {
  const std::lock_guard lock(comm->hub->mutex);
  if (comm->hub->faults.breaks) return NDT_COMM_LOST;
  move_messages_to(*comm->hub, comm->rank);
  std::vector<ndt_comm_done>& all = comm->hub->done[static_cast<size_t>(comm->rank)];
  *n = std::min<int32_t>(room, static_cast<int32_t>(all.size()));
  std::copy_n(all.begin(), *n, done);
  all.erase(all.begin(), all.begin() + *n);
  return NDT_COMM_OK;
}

}  // namespace

FakeWorld::FakeWorld(int ranks) : hub_(std::make_shared<Hub>()) {
  hub_->done.resize(static_cast<size_t>(ranks));
}

const ndt_comm_plugin& FakeWorld::plugin() {
  static const ndt_comm_plugin p{.version = NDT_COMM_VERSION,
                                 .name = "fake",
                                 .library = "none",
                                 .tags = 1024,
                                 .most_bytes = kMostBytes,
                                 .last_error = last_error,
                                 .world = world,
                                 .rank = rank_of,
                                 .size = size_of_world,
                                 .host = host,
                                 .close = close,
                                 .abandon = abandon,
                                 .send = send,
                                 .receive = receive,
                                 .test_some = test_some};
  return p;
}

ndt_comm* FakeWorld::join(int rank) const { return new ndt_comm{hub_, rank}; }

void FakeWorld::set(const FakeFaults& faults) const {
  const std::lock_guard lock(hub_->mutex);
  hub_->faults = faults;
}

int FakeWorld::messages() const {
  const std::lock_guard lock(hub_->mutex);
  return hub_->messages;
}

int FakeWorld::closed() const {
  const std::lock_guard lock(hub_->mutex);
  return hub_->closed;
}

int FakeWorld::abandoned() const {
  const std::lock_guard lock(hub_->mutex);
  return hub_->abandoned;
}

}  // namespace ndtrain::comm_tests
