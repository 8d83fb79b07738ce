#include "framework/comm/rendezvous.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "framework/comm/arrivals.h"
#include "framework/comm/rank_hello.h"
#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/core/text.h"

namespace ndtrain {
namespace {

using std::chrono::milliseconds;
using Streams = std::vector<std::unique_ptr<Stream>>;

constexpr milliseconds kBetweenDials{100};  // while nobody listens yet
constexpr size_t kMostRefused = 8;          // that are named; the log has all

// How much time is left.
class Countdown {
 public:
  Countdown(Clock& clock, milliseconds patience)
      : clock_(clock), end_(clock.monotonic() + patience) {}
  milliseconds left() const {
    return std::max(std::chrono::ceil<milliseconds>(end_ - clock_.monotonic()), milliseconds(0));
  }
  milliseconds at_most(milliseconds most) const { return std::min(most, left()); }

 private:
  Clock& clock_;
  const std::chrono::nanoseconds end_;
};

void check(const RankPlace& place) {
  if (place.ranks < 1 || place.rank < 0 || place.rank >= place.ranks) {
    throw Error("rendezvous: rank ", place.rank, " of ", place.ranks, " ranks");
  }
}

RankHello hello_of(const RankPlace& place, const std::string& address) {
  return {.rank = place.rank,
          .ranks = place.ranks,
          .generation = place.generation,
          .address = address,
          .fingerprint = place.fingerprint};
}

// Why this is not one of the ranks that `here` still waits for, or "".
std::string refusal(const RankPlace& here, const RankHello& they, const Streams& met) {
  const auto differs = [&](const std::string& what, int64_t theirs, int64_t ours) {
    return what + " is " + std::to_string(theirs) + ", not " + std::to_string(ours);
  };
  if (they.ranks != here.ranks) return differs("the number of ranks", they.ranks, here.ranks);
  if (they.generation != here.generation) {
    return differs("the generation", they.generation, here.generation);
  }
  if (they.rank <= here.rank || they.rank >= here.ranks) {
    return "there is no rank " + std::to_string(they.rank) + " to wait for";
  }
  if (met[static_cast<size_t>(they.rank)]) {
    return "rank " + std::to_string(they.rank) + " is there already";
  }
  return first_difference(here.fingerprint, they.fingerprint);
}

// Without the name of the peer, which streams begin with.
std::string bare(const Stream& stream, const std::string& message) {
  const std::string who = stream.peer() + ": ";
  return message.starts_with(who) ? message.substr(who.size()) : message;
}

// Takes one of those who come, or tells in `refused` why not.
std::optional<RankHello> take_one(const RankPlace& here, Arrivals& arrivals,
                                  const Countdown& countdown, Streams& met,
                                  std::vector<std::string>& refused) {
  std::optional<Arrivals::Arrival> arrival = arrivals.next(countdown.left());
  if (!arrival) return std::nullopt;
  Result<RankHello>& hello = arrival->hello;
  Stream& stream = *arrival->stream;
  const std::string why = hello.ok() ? refusal(here, *hello, met) : hello.status().message();
  if (!why.empty()) {
    const std::string line = stream.peer() + " was refused: " + printable(bare(stream, why));
    log::warn("{}", line);
    if (refused.size() < kMostRefused) refused.push_back(line);
    // It may be gone.
    if (hello.ok()) static_cast<void>(write_answer(stream, {.refusal = why}).ok());
    return std::nullopt;
  }
  met[static_cast<size_t>(hello->rank)] = std::move(arrival->stream);
  return std::move(*hello);
}

// All ranks above this one; what they said, in their places.
Result<std::vector<RankHello>> take_all(const RankPlace& here, Listener& listener,
                                        const Countdown& countdown, Streams& met) {
  std::vector<RankHello> hellos(static_cast<size_t>(here.ranks));
  std::vector<std::string> refused;
  Arrivals arrivals(listener);
  for (int missing = here.ranks - 1 - here.rank; missing > 0;) {
    if (auto hello = take_one(here, arrivals, countdown, met, refused)) {
      hellos[static_cast<size_t>(hello->rank)] = std::move(*hello);
      --missing;
    } else if (countdown.left() == milliseconds(0)) {
      std::string who, others;
      for (int r = here.rank + 1; r < here.ranks; ++r) {
        if (!met[static_cast<size_t>(r)]) who += (who.empty() ? "" : ", ") + std::to_string(r);
      }
      for (const std::string& line : refused) others += "; " + line;
      return Status(Code::kCancelled, "rendezvous: rank " + who + " has not come to " +
                                          listener.address() + " in time" + others);
    }
  }
  return hellos;
}

// With the host that the rank was seen to come from, where it names none.
std::string reachable(const std::string& listens, const std::string& peer) {
  for (const std::string any : {"0.0.0.0:", "[::]:"}) {
    if (!listens.starts_with(any)) continue;
    return peer.substr(0, peer.rfind(':')) + ":" + listens.substr(any.size());
  }
  return listens;
}

// No such address; or somebody is there who is no rank, as its certificate has it.
bool is_final(Code code) { return code == Code::kUnsupported || code == Code::kCorrupt; }

Result<std::unique_ptr<Stream>> dial(Net& net, const std::string& address,
                                     const Countdown& countdown, Clock& clock) {
  for (;;) {
    Result<std::unique_ptr<Stream>> stream = net.dial(address);
    if (stream.ok() || is_final(stream.status().code())) return stream;
    if (countdown.left() == milliseconds(0)) {
      return Status(Code::kCancelled, "rendezvous: nobody is there: " + stream.status().message());
    }
    clock.sleep(countdown.at_most(kBetweenDials));
  }
}

// Says who this is; the answer of who was dialled.
Result<RankAnswer> greet(Stream& stream, const RankHello& hello, const Countdown& countdown) {
  if (Status s = write_hello(stream, hello); !s.ok()) return s;
  Result<RankAnswer> answer = read_answer(stream, countdown.left());
  if (!answer.ok()) {
    return Status(answer.status().code(),
                  "rendezvous: " + stream.peer() + ": " + bare(stream, answer.status().message()));
  }
  if (!answer->refusal.empty()) {
    return Status(Code::kUnsupported, "rendezvous: " + stream.peer() + " refuses rank " +
                                          std::to_string(hello.rank) + ": " +
                                          printable(answer->refusal));
  }
  return answer;
}

Result<Streams> join_ranks(Net& net, const RankPlace& place, Clock& clock) {
  const Countdown countdown(clock, place.patience);
  Result<std::unique_ptr<Listener>> listener = net.listen(place.listen);
  if (!listener.ok()) return listener.status();
  const RankHello hello = hello_of(place, (*listener)->address());
  Streams met(static_cast<size_t>(place.ranks));
  std::vector<std::string> addresses = {place.rendezvous};
  for (int r = 0; r < place.rank; ++r) {
    Result<std::unique_ptr<Stream>> stream =
        dial(net, addresses[static_cast<size_t>(r)], countdown, clock);
    if (!stream.ok()) return stream.status();
    const Result<RankAnswer> answer = greet(**stream, hello, countdown);
    if (!answer.ok()) return answer.status();
    if (r == 0) addresses = answer->addresses;
    if (addresses.size() != met.size()) {
      return Status(Code::kCorrupt, "rendezvous: " + place.rendezvous + " names " +
                                        std::to_string(addresses.size()) + " ranks of " +
                                        std::to_string(place.ranks));
    }
    met[static_cast<size_t>(r)] = std::move(*stream);
  }
  const Result<std::vector<RankHello>> hellos = take_all(place, **listener, countdown, met);
  if (!hellos.ok()) return hellos.status();
  for (size_t r = static_cast<size_t>(place.rank) + 1; r < met.size(); ++r) {
    if (Status s = write_answer(*met[r], {}); !s.ok()) return s;
  }
  return met;
}

}  // namespace

Result<Streams> receive_ranks(Listener& listener, const RankPlace& place, Clock& clock,
                              std::vector<int>* absent) {
  check(place);
  const Countdown countdown(clock, place.patience);
  Streams met(static_cast<size_t>(place.ranks));
  const Result<std::vector<RankHello>> hellos = take_all(place, listener, countdown, met);
  for (int r = 1; r < place.ranks && absent && !hellos.ok(); ++r) {
    if (!met[static_cast<size_t>(r)]) absent->push_back(r);
  }
  if (!hellos.ok()) return hellos.status();
  RankAnswer answer;
  for (size_t r = 0; r < met.size(); ++r) {
    answer.addresses.push_back(met[r] ? reachable((*hellos)[r].address, met[r]->peer()) : "");
  }
  for (const auto& stream : met) {
    if (!stream) continue;
    if (Status s = write_answer(*stream, answer); !s.ok()) return s;
  }
  return met;
}

Result<Streams> meet_ranks(Net& net, const RankPlace& place, Clock& clock) {
  check(place);
  if (place.ranks == 1) return Streams(1);
  if (place.rank > 0) return join_ranks(net, place, clock);
  Result<std::unique_ptr<Listener>> listener = net.listen(place.rendezvous);
  if (!listener.ok()) return listener.status();
  return receive_ranks(**listener, place, clock);
}

}  // namespace ndtrain
