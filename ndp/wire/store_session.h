// A PipeStore's side of its sessions with the Tuner: dialling again and again, the handshake, terms
// and heartbeats. A pure state machine: the caller dials, sends and closes as it is told, and says
// what happened and when (on a monotonic clock). One thread.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/core/rng.h"
#include "ndp/wire/liveness.h"
#include "ndp/wire/tuner_identity.h"
#include "ndp/wire/wire.pb.h"

namespace ndtrain::ndp {

class StoreSession {
 public:
  using Time = Liveness::Time;

  static constexpr Time kFirstRetry = std::chrono::milliseconds(500);
  static constexpr Time kLastRetry = std::chrono::seconds(30);  // doubling until there
  // Where one of several Tuners may take over at any time.
  static constexpr Time kLastRetryOfSeveral = std::chrono::seconds(2);

  // What the caller does now, in this order.
  struct Actions {
    std::optional<TunerIdentity> remember;  // durably, before anything is sent
    std::vector<wire::FromStore> send;
    bool close = false;    // the link, if there is one; closed() need not be said then
    bool dial = false;     // a new link
    bool deliver = false;  // the message just given is for the store's jobs
    std::string note;      // for people: why a session ended, or that one began
  };

  // `hello` but for what is known of the Tuner. `seed` spreads the stores' retries, `last_retry` at
  // most apart. `unix_seconds` tells the time, by which a term can be too large; null: none is.
  StoreSession(wire::Hello hello, TunerIdentity known, uint64_t seed, Time last_retry = kLastRetry,
               std::function<int64_t()> unix_seconds = {});

  Actions tick(Time now);
  Actions opened(Time now);
  Actions message(Time now, const wire::ToStore& message);
  Actions closed(Time now, const std::string& reason);
  // The Tuner sent what no peer may: as closed(), and not dialled again at once.
  Actions refuse(Time now, const std::string& why);

  bool open() const { return state_ == State::kOpen; }
  void put_photos(uint64_t photos) { hello_.set_photos(photos); }
  void put_in_force(std::span<const wire::InForce> versions);  // one for each task
  void put_deletions(uint64_t count, uint64_t mark) {
    hello_.set_deletions(count);
    hello_.set_deletions_mark(mark);
  }
  void put_trash(uint64_t revision) { hello_.set_trash(revision); }
  // Marks a message as of this session, about to be sent.
  void stamp(Time now, wire::FromStore& message);
  Time next() const;  // when tick() has something to do
  uint64_t window() const { return window_; }
  uint32_t protocol() const { return protocol_; }
  bool relays_photos() const { return relays_photos_; }
  const TunerIdentity& known() const { return known_; }

 private:
  enum class State { kWaiting, kDialling, kGreeting, kOpen };

  Actions welcome(Time now, const wire::ToStore& message);
  Actions end(Time now, std::string why, bool hurry);

  wire::Hello hello_;
  TunerIdentity known_;  // the newest, kept on the store's disk
  Rng rng_;
  const Time last_retry_;
  std::function<int64_t()> unix_seconds_;
  State state_ = State::kWaiting;
  Time retry_at_{0}, retry_ = kFirstRetry;
  Liveness liveness_;
  uint64_t window_ = 0;
  uint32_t protocol_ = 0;
  bool relays_photos_ = false;
};

}  // namespace ndtrain::ndp
