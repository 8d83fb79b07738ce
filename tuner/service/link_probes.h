// What the links to stores carry: measured by a short probe of one store at a time, while no job is
// in progress, when a store is here whose link was not measured for a day. First the round trip,
// then bytes to the Tuner, then bytes to the store: more and more, until they take a while. One
// thread, the service's.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "framework/core/clock.h"
#include "ndp/wire/message_limits.h"
#include "tuner/service/store_registry.h"

namespace ndtrain::tuner {
using namespace ndp;

class LinkProbes {
 public:
  using Time = StoreRegistry::Time;
  static constexpr std::chrono::hours kGood{24};
  static constexpr std::chrono::milliseconds kLong{100};  // enough of a measurement
  static constexpr std::chrono::seconds kPatience{60};    // with one answer
  static constexpr std::chrono::seconds kLook{10};        // for links that were measured long ago
  static constexpr int kRoundTrips = 3;                   // of which the shortest counts
  static constexpr size_t kFirst = size_t{64} << 10, kMost = wire::kProbeBytes;

  struct Ports {
    Clock& clock;
    StoreRegistry& stores;
    std::function<bool()> idle;  // no job is in progress
  };
  explicit LinkProbes(Ports ports) : ports_(std::move(ports)) {}

  // One that nobody waits for is left alone.
  void answer(const std::string& store, const wire::Probe& probe);
  void arrived() { look_at_ = Time(0); }
  void left(const std::string& store);

  void pump();
  Time next() const;  // when pump() has something to do; Time::max() for never

 private:
  enum class Step : uint8_t { kRoundTrip, kUp, kDown };
  struct Probing {
    std::string store;
    Step step = Step::kRoundTrip;
    uint64_t number = 0;
    int round_trips = 0;
    size_t bytes = 0;
    Time asked{0};
    LinkSpeed speed = {};
  };

  Time now() const { return ports_.clock.monotonic(); }
  void ask();

  const Ports ports_;
  uint64_t numbers_ = 0;
  std::optional<Probing> probing_;
  Time look_at_{0};               // at all stores, when there was nothing to do
  std::set<std::string> silent_;  // in this session
};

}  // namespace ndtrain::tuner
