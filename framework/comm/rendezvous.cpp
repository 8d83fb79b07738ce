#include "framework/comm/rendezvous.h"

#include <algorithm>
#include <functional>
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

constexpr milliseconds kBetweenDials{100};     // while nobody listens yet
constexpr milliseconds kBetweenArrivals{100};  // looks at whether it is to stop
constexpr size_t kMostRefused = 8;             // that are named; the log has all

// How much time is left: none after a stop.
class Countdown {
 public:
  Countdown(Clock& clock, const RankPlace& place)
      : clock_(clock), end_(clock.monotonic() + place.patience), stop_(place.stop) {}
  milliseconds left() const {
    if (stop_.stop_requested()) return milliseconds(0);
    return std::max(std::chrono::ceil<milliseconds>(end_ - clock_.monotonic()), milliseconds(0));
  }
  milliseconds at_most(milliseconds most) const { return std::min(most, left()); }
  const std::stop_token& stop() const { return stop_; }

 private:
  Clock& clock_;
  const std::chrono::nanoseconds end_;
  const std::stop_token stop_;
};

// While it lives a stop closes the stream, which ends each read of it.
class ClosedByStop {
 public:
  ClosedByStop(Stream& stream, const Countdown& countdown)
      : closes_(countdown.stop(), [&stream] { stream.close(); }) {}

 private:
  const std::stop_callback<std::function<void()>> closes_;
};

void check(const RankPlace& place) {
  if (place.ranks < 1 || place.rank < 0 || place.rank >= place.ranks) {
    throw Error("rendezvous: rank ", place.rank, " of ", place.ranks, " ranks");
  }
  if (place.rank > 0 && place.listen.empty() && !place.relay) {
    throw Error("rendezvous: rank ", place.rank, " does not listen, and is not relayed");
  }
}

RankHello hello_of(const RankPlace& place, const std::string& address, int to = 0) {
  return {.rank = place.rank,
          .ranks = place.ranks,
          .generation = place.generation,
          .address = address,
          .fingerprint = place.fingerprint,
          .to = to,
          .relay = place.relay,
          .site = place.site};
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
  if (they.to != here.rank) {
    return "it wants rank " + std::to_string(they.to) + ", and nothing is passed on here";
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
  std::optional<Arrivals::Arrival> arrival = arrivals.next(countdown.at_most(kBetweenArrivals));
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

// All ranks above this one but those of the relay; what they said, in their places.
Result<std::vector<RankHello>> take_all(const RankPlace& here, const std::vector<int>& relayed,
                                        Listener& listener, const Countdown& countdown,
                                        Streams& met) {
  std::vector<RankHello> hellos(static_cast<size_t>(here.ranks));
  std::vector<std::string> refused;
  Arrivals arrivals(listener);
  for (auto missing = here.ranks - 1 - here.rank - std::ssize(relayed); missing > 0;) {
    if (auto hello = take_one(here, arrivals, countdown, met, refused)) {
      hellos[static_cast<size_t>(hello->rank)] = std::move(*hello);
      --missing;
    } else if (countdown.left() == milliseconds(0)) {
      std::string who, others;
      for (int r = here.rank + 1; r < here.ranks; ++r) {
        if (met[static_cast<size_t>(r)] || std::ranges::count(relayed, r) > 0) continue;
        who += (who.empty() ? "" : ", ") + std::to_string(r);
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
  const ClosedByStop closed(stream, countdown);
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

// Asks rank 0 to pass on what this rank and `to` send each other, once that one asks, too.
Result<std::unique_ptr<Stream>> ask_relay(Net& net, const RankPlace& place, int to,
                                          const Countdown& countdown, Clock& clock) {
  Result<std::unique_ptr<Stream>> stream = dial(net, place.rendezvous, countdown, clock);
  if (!stream.ok()) return stream;
  if (Status s = write_hello(**stream, hello_of(place, "", to)); !s.ok()) return s;
  return stream;
}

Result<RankAnswer> await_relay(Stream& stream, int to, const Countdown& countdown) {
  const ClosedByStop closed(stream, countdown);
  Result<RankAnswer> answer = read_answer(stream, countdown.left());
  if (answer.ok() && answer->refusal.empty()) return answer;
  return Status(
      answer.ok() ? Code::kUnsupported : answer.status().code(),
      "rendezvous: rank " + std::to_string(to) + " is not reached by " + stream.peer() + ": " +
          printable(answer.ok() ? answer->refusal : bare(stream, answer.status().message())));
}

// One of the ranks below, at what it has said is its address.
Result<std::unique_ptr<Stream>> reach(Net& net, const RankPlace& place, int to,
                                      const std::string& address, const Countdown& countdown,
                                      Clock& clock) {
  if (!address.empty()) {
    Result<std::unique_ptr<Stream>> stream = dial(net, address, countdown, clock);
    if (stream.ok() || to == 0) return stream;
    return Status(stream.status().code(), stream.status().message() + ": rank " +
                                              std::to_string(to) +
                                              " listens there; where nobody can dial it, start it "
                                              "with --relay");
  }
  Result<std::unique_ptr<Stream>> stream = ask_relay(net, place, to, countdown, clock);
  if (!stream.ok()) return stream;
  const Result<RankAnswer> answer = await_relay(**stream, to, countdown);
  return answer.ok() ? std::move(stream) : answer.status();
}

// Asks for all of these.
Result<Streams> ask_relay_for(Net& net, const RankPlace& here, const std::vector<int>& ranks,
                              const Countdown& countdown, Clock& clock) {
  Streams asked(static_cast<size_t>(here.ranks));
  for (const int r : ranks) {
    Result<std::unique_ptr<Stream>> stream = ask_relay(net, here, r, countdown, clock);
    if (!stream.ok()) return stream.status();
    asked[static_cast<size_t>(r)] = std::move(*stream);
  }
  return asked;
}

// One of them, once it asks, too.
Status take_relayed(const RankPlace& here, int rank, std::unique_ptr<Stream> stream,
                    const Countdown& countdown, Streams& met) {
  if (const Result<RankAnswer> answer = await_relay(*stream, rank, countdown); !answer.ok()) {
    return answer.status();
  }
  const Result<RankHello> hello = [&] {
    const ClosedByStop closed(*stream, countdown);
    return read_hello(*stream, countdown.left());
  }();
  if (!hello.ok()) return hello.status();
  const std::string why = hello->rank == rank ? refusal(here, *hello, met) : "it is another rank";
  if (!why.empty()) {
    static_cast<void>(write_answer(*stream, {.refusal = why}).ok());  // it may be gone
    return Status(Code::kUnsupported,
                  "rendezvous: rank " + std::to_string(rank) + " was refused: " + printable(why));
  }
  met[static_cast<size_t>(rank)] = std::move(stream);
  return {};
}

// All ranks above this one, of which these come by the relay.
Status take_above(Net& net, const RankPlace& here, const std::vector<int>& relayed,
                  Listener* listener, const Countdown& countdown, Clock& clock, Streams& met) {
  const bool fits =
      std::ranges::all_of(relayed, [&](int r) { return here.rank < r && r < here.ranks; }) &&
      std::ranges::adjacent_find(relayed, std::greater_equal<>()) == relayed.end();
  if (!fits || (!listener && std::ssize(relayed) != here.ranks - 1 - here.rank)) {
    return Status(Code::kCorrupt, "rendezvous: " + here.rendezvous + " passes on what it cannot");
  }
  Result<Streams> asked = ask_relay_for(net, here, relayed, countdown, clock);
  if (!asked.ok()) return asked.status();
  if (listener) {
    Status taken = take_all(here, relayed, *listener, countdown, met).status();
    if (!taken.ok()) return taken;
  }
  for (const int r : relayed) {
    Status taken =
        take_relayed(here, r, std::move((*asked)[static_cast<size_t>(r)]), countdown, met);
    if (!taken.ok()) return taken;
  }
  return {};
}

// Whether `above` reaches `rank`, which is below it, by rank 0.
bool is_relayed(const RankHello& rank, const RankHello& above) {
  const bool near = !rank.site.empty() && rank.site == above.site && !rank.address.empty();
  return rank.relay && !near;
}

// What rank `to` is told of the others.
RankAnswer answer_to(int to, const std::vector<RankHello>& hellos, const Streams& met) {
  RankAnswer answer;
  const RankHello& they = hellos[static_cast<size_t>(to)];
  for (int r = 0; r < std::ssize(met); ++r) {
    const auto at = static_cast<size_t>(r);
    const bool direct = r > 0 && !is_relayed(hellos[at], they);
    answer.addresses.push_back(direct ? reachable(hellos[at].address, met[at]->peer()) : "");
    if (r > to && is_relayed(they, hellos[at])) answer.relayed.push_back(r);
  }
  return answer;
}

Result<Streams> join_ranks(Net& net, const RankPlace& place, Clock& clock) {
  const Countdown countdown(clock, place);
  std::unique_ptr<Listener> listener;
  if (!place.listen.empty()) {
    Result<std::unique_ptr<Listener>> listens = net.listen(place.listen);
    if (!listens.ok()) return listens.status();
    listener = std::move(*listens);
  }
  const std::string address = listener ? listener->address() : "";
  Streams met(static_cast<size_t>(place.ranks));
  std::vector<std::string> addresses = {place.rendezvous};
  std::vector<int> relayed;
  for (int r = 0; r < place.rank; ++r) {
    Result<std::unique_ptr<Stream>> stream =
        reach(net, place, r, addresses[static_cast<size_t>(r)], countdown, clock);
    if (!stream.ok()) return stream.status();
    const Result<RankAnswer> answer = greet(**stream, hello_of(place, address, r), countdown);
    if (!answer.ok()) return answer.status();
    if (r == 0) {
      addresses = answer->addresses;
      relayed = answer->relayed;
    }
    if (addresses.size() != met.size()) {
      return Status(Code::kCorrupt, "rendezvous: " + place.rendezvous + " names " +
                                        std::to_string(addresses.size()) + " ranks of " +
                                        std::to_string(place.ranks));
    }
    met[static_cast<size_t>(r)] = std::move(*stream);
  }
  const Status taken = take_above(net, place, relayed, listener.get(), countdown, clock, met);
  if (!taken.ok()) return taken;
  for (size_t r = static_cast<size_t>(place.rank) + 1; r < met.size(); ++r) {
    if (Status s = write_answer(*met[r], {}); !s.ok()) return s;
  }
  return met;
}

}  // namespace

Result<Streams> receive_ranks(Listener& listener, const RankPlace& place, Clock& clock,
                              RankArrivals* arrivals) {
  check(place);
  const Countdown countdown(clock, place);
  Streams met(static_cast<size_t>(place.ranks));
  const Result<std::vector<RankHello>> hellos = take_all(place, {}, listener, countdown, met);
  for (int r = 1; r < place.ranks && arrivals && !hellos.ok(); ++r) {
    if (!met[static_cast<size_t>(r)]) arrivals->absent.push_back(r);
  }
  if (!hellos.ok()) return hellos.status();
  std::vector<RankAnswer> answers;
  for (int r = 1; r < place.ranks; ++r) {
    answers.push_back(answer_to(r, *hellos, met));
    if (arrivals) arrivals->is_to_relay |= !answers.back().relayed.empty();
  }
  for (size_t r = 1; r < met.size(); ++r) {
    if (Status s = write_answer(*met[r], answers[r - 1]); !s.ok()) return s;
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
