#include "ndp/wire/tuner_sessions.h"

#include <algorithm>

#include "ndp/wire/message_limits.h"
#include "ndp/wire/protocol.h"

namespace ndtrain::ndp {
namespace {

std::optional<uint32_t> common_protocol(const wire::Hello& hello) {
  for (uint32_t p : kProtocols) {
    if (std::ranges::find(hello.protocols(), p) != hello.protocols().end()) return p;
  }
  return std::nullopt;
}

}  // namespace

TunerSessions::TunerSessions(TunerIdentity me, Time heartbeat, uint64_t window, LinkRole of)
    : me_(std::move(me)),
      heartbeat_(heartbeat),
      window_(window),
      of_(of),
      peer_(of == LinkRole::kMember ? "member" : "store") {}

TunerSessions::Actions TunerSessions::opened(Time now, LinkId link, const LinkOpened& who) {
  Session& session =
      sessions_.insert_or_assign(link, Session{who, Liveness(heartbeat_, now)}).first->second;
  schedule(link, session);
  if (!looked_) looked_ = now;
  return {};
}

void TunerSessions::schedule(LinkId link, Session& session) {
  const Time next = session.next();
  auto entry = due_.extract({session.due, link});
  session.due = next;
  if (entry.empty()) {
    due_.emplace(next, link);
  } else {
    entry.value() = {next, link};
    due_.insert(std::move(entry));
  }
}

TunerSessions::Actions TunerSessions::message(Time now, LinkId link,
                                              const wire::FromStore& message) {
  const auto it = sessions_.find(link);
  if (it == sessions_.end()) return {};  // closed by us
  it->second.liveness.heard(now);
  schedule(link, it->second);
  Actions a;
  const bool greeted = !it->second.store.empty();
  if (message.body_case() == wire::FromStore::BODY_NOT_SET || message.has_hello() == greeted) {
    refuse(now, link, wire::Refusal::BAD_MESSAGE,
           greeted ? "an unknown kind of message, or a second Hello" : "no Hello came first", a);
    return a;
  }
  if (!greeted) return greet(now, link, message.hello());
  if (message.term() == me_.term && !message.has_ping()) a.deliver = it->second.store;
  return a;
}

std::optional<std::pair<wire::Refusal::Reason, std::string>> TunerSessions::objection(
    Time now, const Session& session, const wire::Hello& hello) const {
  using wire::Refusal;
  const std::string& name = hello.store();
  if (of_ == LinkRole::kMember ? !is_store_name(name) : !names_store(name)) {
    return std::pair(Refusal::BAD_MESSAGE, "'" + name.substr(0, kStoreNameBytes) +
                                               "' is no name for a " + peer_ +
                                               ": letters, digits, '.', "
                                               "'_' and '-', at most 64");
  }
  if (session.who.role && (*session.who.role == LinkRole::kMember) != (of_ == LinkRole::kMember)) {
    return std::pair(
        Refusal::NOT_ALLOWED,
        "the certificate is of '" + session.who.certified +
            (of_ == LinkRole::kMember ? "', not of a member of a training"
                                      : "', a member of a training, not of a PipeStore"));
  }
  if (!session.who.certified.empty() && session.who.certified != process_of(name)) {
    return std::pair(Refusal::NOT_ALLOWED, "the certificate is of '" + session.who.certified +
                                               "', the " + peer_ + " calls itself '" + name + "'");
  }
  if (!common_protocol(hello)) {
    return std::pair(Refusal::PROTOCOL, "this Tuner speaks protocol " +
                                            std::to_string(kProtocols[0]) + "; ndtrain " +
                                            hello.version() + " of the " + peer_ + " does not");
  }
  if (hello.tuner() == me_.id && hello.newest_term() > me_.term) {
    return std::pair(Refusal::OLD_TERM, "this Tuner's term is " + std::to_string(me_.term) +
                                            ", the " + peer_ + " has seen " +
                                            std::to_string(hello.newest_term()));
  }
  if (is_twin({hello.tuner(), hello.newest_term(), hello.newest_start()}, me_)) {
    return std::pair(Refusal::TWIN, refusal_of_twin(me_.term));
  }
  if (const auto other = by_store_.find(name); other != by_store_.end()) {
    const Session& holder = sessions_.at(other->second);
    if (holder.incarnation != hello.incarnation() && !holder.liveness.silent(now)) {
      return std::pair(Refusal::STORE_TAKEN, "a " + peer_ + " named '" + name +
                                                 "' has a session, from " + holder.who.peer +
                                                 "; names are unique");
    }
  }
  return std::nullopt;
}

TunerSessions::Actions TunerSessions::greet(Time now, LinkId link, const wire::Hello& hello) {
  Actions a;
  Session& session = sessions_.at(link);
  if (const auto no = objection(now, session, hello)) {
    a.warnings.push_back(peer_ + " '" + hello.store() + "' at " + session.who.peer +
                         " is refused: " + no->second);
    refuse(now, link, no->first, no->second, a);
    return a;
  }
  if (const auto other = by_store_.find(hello.store()); other != by_store_.end()) {
    end(other->second, "the " + peer_ + " has come back on another link", a);
  }
  session.store = hello.store();
  session.incarnation = hello.incarnation();
  by_store_[session.store] = link;
  a.arrived = hello;
  wire::ToStore& m = a.send.emplace_back(link, wire::ToStore()).second;
  m.mutable_welcome()->set_protocol(*common_protocol(hello));
  m.mutable_welcome()->set_tuner(me_.id);
  m.mutable_welcome()->set_start(me_.start);
  m.mutable_welcome()->set_heartbeat_ms(static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(heartbeat_).count()));
  m.mutable_welcome()->set_window(window_);
  m.mutable_welcome()->set_relays_photos(of_ == LinkRole::kStore);
  stamp(now, link, m);
  return a;
}

void TunerSessions::refuse(Time now, LinkId link, wire::Refusal::Reason reason,
                           const std::string& text, Actions& a) {
  wire::ToStore& m = a.send.emplace_back(link, wire::ToStore()).second;
  m.mutable_refusal()->set_reason(reason);
  m.mutable_refusal()->set_text(wire::as_text(text));
  stamp(now, link, m);
  end(link, text, a);
}

void TunerSessions::end(LinkId link, const std::string& reason, Actions& a) {
  const auto it = sessions_.find(link);
  if (!it->second.store.empty()) {
    a.left.emplace_back(it->second.store, reason);
    by_store_.erase(it->second.store);
  }
  a.close.push_back(link);
  due_.erase({it->second.due, link});
  sessions_.erase(it);
}

TunerSessions::Actions TunerSessions::closed(LinkId link, const std::string& reason) {
  Actions a;
  if (sessions_.contains(link)) end(link, reason, a);
  a.close.clear();
  return a;
}

// Time that this side stood still is no peer's silence.
void TunerSessions::look(Time now) {
  const Time late = looked_ ? now - *looked_ - heartbeat_ : Time(0);
  looked_ = now;
  if (late <= Time(0)) return;
  for (auto& [link, session] : sessions_) {
    session.liveness.stood_still(now, late);
    schedule(link, session);
  }
}

TunerSessions::Actions TunerSessions::tick(Time now) {
  Actions a;
  look(now);
  std::set<LinkId> due;
  for (auto it = due_.begin(); it != due_.end() && it->first <= now; ++it) due.insert(it->second);
  std::vector<LinkId> dead;
  for (const LinkId link : due) {
    const Session& session = sessions_.at(link);
    if (session.liveness.dead(now)) {
      dead.push_back(link);
    } else {
      wire::ToStore& m = a.send.emplace_back(link, wire::ToStore()).second;
      m.mutable_ping();
      stamp(now, link, m);
    }
  }
  for (LinkId link : dead) {
    const auto silence =
        std::chrono::duration_cast<std::chrono::seconds>(heartbeat_ * Liveness::kSilentHeartbeats);
    end(link, "silent for " + std::to_string(silence.count()) + " s", a);
  }
  return a;
}

TunerSessions::Actions TunerSessions::refuse(Time now, const std::string& store,
                                             const std::string& why) {
  Actions a;
  if (const auto link = link_of(store)) refuse(now, *link, wire::Refusal::BAD_MESSAGE, why, a);
  return a;
}

TunerSessions::Actions TunerSessions::refuse(Time now, LinkId link, const std::string& why) {
  Actions a;
  const auto it = sessions_.find(link);
  if (it == sessions_.end()) return a;  // closed by us
  a.warnings.push_back(name_of(it->second) + " is refused: " + why);
  refuse(now, link, wire::Refusal::BAD_MESSAGE, why, a);
  return a;
}

std::string TunerSessions::name_of(const Session& session) const {
  const std::string& peer = session.who.peer;
  return session.store.empty() ? "who dials from " + peer
                               : peer_ + " " + session.store + " at " + peer;
}

std::optional<LinkId> TunerSessions::link_of(const std::string& store) const {
  const auto it = by_store_.find(store);
  return it == by_store_.end() ? std::nullopt : std::optional(it->second);
}

LinkOpened TunerSessions::who(const std::string& store) const {
  const std::optional<LinkId> link = link_of(store);
  return link ? sessions_.at(*link).who : LinkOpened();
}

std::optional<TunerSessions::Time> TunerSessions::heard(const std::string& store) const {
  const std::optional<LinkId> link = link_of(store);
  return link ? std::optional(sessions_.at(*link).liveness.heard()) : std::nullopt;
}

std::vector<std::string> TunerSessions::stores() const {
  std::vector<std::string> names;
  for (const auto& [name, link] : by_store_) names.push_back(name);
  return names;
}

void TunerSessions::stamp(Time now, LinkId link, wire::ToStore& message) {
  message.set_term(me_.term);
  const auto it = sessions_.find(link);
  if (it == sessions_.end()) return;
  it->second.liveness.said(now);
  schedule(link, it->second);
}

TunerSessions::Time TunerSessions::next() const {
  return due_.empty() ? Time::max() : due_.begin()->first;
}

}  // namespace ndtrain::ndp
