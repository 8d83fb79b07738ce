#include "framework/comm/rank_relay.h"

#include <array>
#include <atomic>
#include <list>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "framework/comm/arrivals.h"
#include "framework/comm/rank_hello.h"
#include "framework/core/log.h"
#include "framework/core/text.h"

namespace ndtrain {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{200};  // at whether it is to end
constexpr size_t kRoom = size_t{64} << 10;

// Both ends of a pair, in memory that does not move.
struct Pair {
  std::array<std::unique_ptr<Stream>, 2> ends;
  std::vector<std::jthread> threads = {};

  void close() const {
    for (const auto& end : ends) end->close();
  }
};

void pass_on(const Pair& pair, size_t from, std::atomic<int64_t>& passed_on) {
  std::vector<std::byte> room(kRoom);
  Stream &reads = *pair.ends[from], &writes = *pair.ends[1 - from];
  for (;;) {
    const Result<size_t> n = reads.read(room, kBetweenLooks);
    if (!n.ok() && n.status().code() == Code::kCancelled) continue;
    if (!n.ok() || *n == 0 || !writes.write(std::span(room).first(*n)).ok()) break;
    passed_on += static_cast<int64_t>(*n);
  }
  pair.close();
}

}  // namespace

struct RankRelay::State {
  // Why this is not one of a pair, or "".
  std::string refusal(const RankHello& they) const {
    if (they.ranks != place.ranks || they.generation != place.generation) {
      return "it is of another training";
    }
    const auto is_other = [&](int r) { return r > 0 && r < place.ranks; };
    if (!is_other(they.rank) || !is_other(they.to) || they.rank == they.to) {
      return "rank " + std::to_string(they.rank) + " asks for rank " + std::to_string(they.to);
    }
    if (met.contains({they.rank, they.to})) {
      return "rank " + std::to_string(they.rank) + " is there already";
    }
    return first_difference(place.fingerprint, they.fingerprint);
  }

  void take(Arrivals::Arrival arrival) {
    if (!arrival.hello.ok()) return;
    const RankHello& they = *arrival.hello;
    if (const std::string why = refusal(they); !why.empty()) {
      log::warn("{} was refused: {}", arrival.stream->peer(), printable(why));
      static_cast<void>(write_answer(*arrival.stream, {.refusal = why}).ok());  // it may be gone
      return;
    }
    met.emplace(they.rank, they.to);
    const auto other = waiting.find({they.to, they.rank});
    if (other == waiting.end()) {
      waiting.emplace(std::pair(they.rank, they.to), std::move(arrival.stream));
      return;
    }
    Pair& pair = pairs.emplace_back();
    pair.ends = {std::move(other->second), std::move(arrival.stream)};
    waiting.erase(other);
    // One that is gone is heard of as the other's peer.
    for (const auto& end : pair.ends) static_cast<void>(write_answer(*end, {}).ok());
    for (const size_t from : {0, 1}) {
      pair.threads.emplace_back([this, &pair, from] { pass_on(pair, from, passed_on); });
    }
  }

  void run(const std::stop_token& stop) {
    Arrivals arrivals(*listener);
    while (!stop.stop_requested()) {
      if (auto arrival = arrivals.next(kBetweenLooks)) take(std::move(*arrival));
    }
  }

  std::unique_ptr<Listener> listener;
  const RankPlace place;
  std::atomic<int64_t> passed_on = 0;
  std::set<std::pair<int, int>> met;  // who has come, and for whom
  std::map<std::pair<int, int>, std::unique_ptr<Stream>> waiting;
  std::list<Pair> pairs;
};

RankRelay::RankRelay(std::unique_ptr<Listener> listener, RankPlace place)
    : state_(new State{.listener = std::move(listener), .place = std::move(place)}),
      thread_([this](const std::stop_token& stop) { state_->run(stop); }) {}

RankRelay::~RankRelay() {
  thread_.request_stop();
  thread_.join();
  for (const Pair& pair : state_->pairs) pair.close();
}

int64_t RankRelay::passed_on() const { return state_->passed_on; }

}  // namespace ndtrain
