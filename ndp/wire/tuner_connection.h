// The connection of a PipeStore or member to the Tuner: its link, dialled again and again, and the
// session over it. One thread, the role's.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "framework/core/clock.h"
#include "ndp/wire/grpc_link.h"
#include "ndp/wire/state_directory.h"
#include "ndp/wire/store_session.h"

namespace ndtrain::ndp {

// Who hears of the session, in the middle of a call of the connection's.
class TunerEvents {
 public:
  virtual void message(const wire::ToStore& message) = 0;
  // What was under way belongs to a session that is over. Once more is harmless.
  virtual void session_over() = 0;

 protected:
  ~TunerEvents() = default;
};

class TunerConnection {
 public:
  using Time = StoreSession::Time;

  struct Ports {
    Clock& clock;
    StateDirectory& state;
    std::function<std::unique_ptr<LinkClient>(LinkId)> dial;
    std::function<uint64_t()> photos = {};  // of a PipeStore: how many there are
    // The Tuner may lack what the known one has acknowledged (is_behind()). Before it is
    // remembered, so that a crash in between asks again.
    std::function<void()> behind = {};
    Time last_retry = StoreSession::kLastRetry;  // of who dials one address
  };

  // `hello`: name, incarnation, program version and numerics. `seed` spreads retries. Throws Error.
  TunerConnection(Ports ports, wire::Hello hello, uint64_t seed, TunerEvents& events);

  void handle(LinkEvent<wire::ToStore> event);
  void tick() { apply(session_.tick(now())); }
  Time next() const { return session_.next(); }  // when tick() has something to do

  bool open() const { return session_.open(); }
  LinkId link() const { return link_id_; }  // that is, or was, the session's
  uint64_t window() const { return session_.window(); }
  uint64_t term() const { return session_.known().term; }  // of the newest Tuner that was met
  uint32_t protocol() const { return session_.protocol(); }
  bool relays_photos() const { return session_.relays_photos(); }

  void send(wire::FromStore message);                              // while it is open
  size_t waiting() const { return link_ ? link_->waiting() : 0; }  // bytes that are not written yet
  void leave(const std::string& reason);  // says so to the Tuner, and closes
  void drop(const std::string& reason);   // and dials again
  // The Tuner says what none would: as drop(), and not dialled again at once. Whoever calls it is
  // without a session on return.
  void refuse(const std::string& why) { apply(session_.refuse(now(), why)); }

  void end_if_revoked(const LinkSecurity& security) {
    if (link_) link_->end_if_revoked(security);
  }

  // Of the next Hello.
  void put_in_force(std::span<const wire::InForce> versions) { session_.put_in_force(versions); }
  void put_deletions(uint64_t count, uint64_t mark) { session_.put_deletions(count, mark); }
  void put_trash(uint64_t revision) { session_.put_trash(revision); }

 private:
  Time now() const { return ports_.clock.monotonic(); }
  void apply(const StoreSession::Actions& actions);

  const Ports ports_;
  TunerEvents& events_;
  StoreSession session_;
  std::unique_ptr<LinkClient> link_;
  LinkId link_id_ = 0;
};

}  // namespace ndtrain::ndp
