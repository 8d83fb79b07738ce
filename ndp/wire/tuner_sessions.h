// The Tuner's side of its sessions with PipeStores, or with members: who may have one, terms and
// heartbeats. A pure state machine, told what happened and when (on a monotonic clock). One thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ndp/wire/link.h"
#include "ndp/wire/liveness.h"
#include "ndp/wire/tuner_identity.h"
#include "ndp/wire/wire.pb.h"

namespace ndtrain::ndp {

class TunerSessions {
 public:
  using Time = Liveness::Time;

  // What the caller does now, in this order.
  struct Actions {
    std::vector<std::pair<std::string, std::string>> left;  // stores without a session, and why
    std::optional<wire::Hello> arrived;                     // a store with a new one
    std::vector<std::pair<LinkId, wire::ToStore>> send;
    std::vector<LinkId> close;           // after what is sent; closed() may come or not
    std::optional<std::string> deliver;  // the message just given is this store's, for its jobs
    std::vector<std::string> warnings;   // for people: who was refused, and why
  };

  // `of`: who has them, stores or members.
  TunerSessions(TunerIdentity me, Time heartbeat, uint64_t window, LinkRole of = LinkRole::kStore);

  Actions opened(Time now, LinkId link, const LinkOpened& who);
  Actions message(Time now, LinkId link, const wire::FromStore& message);
  Actions closed(LinkId link, const std::string& reason);
  Actions tick(Time now);
  // Ends a store's session because of what it sent.
  Actions refuse(Time now, const std::string& store, const std::string& why);
  // A link's, whoever is at its other end: it sent what no peer may.
  Actions refuse(Time now, LinkId link, const std::string& why);

  // Nullopt when the store has no session.
  std::optional<LinkId> link_of(const std::string& store) const;
  LinkOpened who(const std::string& store) const;             // empty without a session
  std::vector<std::string> stores() const;                    // with a session, in byte order
  std::optional<Time> heard(const std::string& store) const;  // when last; nullopt without one
  // Marks a message as of this Tuner's term, about to be sent.
  void stamp(Time now, LinkId link, wire::ToStore& message);
  Time next() const;  // when tick() has something to do; Time::max() when there is no link

 private:
  struct Session {
    LinkOpened who;
    Liveness liveness;
    std::string store = {};  // "" before the handshake
    uint64_t incarnation = 0;
    Time due{0};  // when there is something to do about it

    // It is sent nothing before the handshake.
    Time next() const { return store.empty() ? liveness.dead_at() : liveness.next(); }
  };

  Actions greet(Time now, LinkId link, const wire::Hello& hello);
  // Empty when the store may have a session.
  std::optional<std::pair<wire::Refusal::Reason, std::string>> objection(
      Time now, const Session& session, const wire::Hello& hello) const;
  void refuse(Time now, LinkId link, wire::Refusal::Reason reason, const std::string& text,
              Actions& actions);
  std::string name_of(const Session& session) const;  // for people
  void end(LinkId link, const std::string& reason, Actions& actions);
  void schedule(LinkId link, Session& session);
  void look(Time now);

  TunerIdentity me_;
  Time heartbeat_;
  uint64_t window_;
  LinkRole of_;
  std::string peer_;  // what people call one
  std::map<LinkId, Session> sessions_;
  std::map<std::string, LinkId> by_store_;
  // Of all sessions: a turn costs what is due in it, however many there are.
  std::set<std::pair<Time, LinkId>> due_;
  std::optional<Time> looked_;  // when tick() was called last
};

}  // namespace ndtrain::ndp
