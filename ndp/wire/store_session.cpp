#include "ndp/wire/store_session.h"

#include <algorithm>

#include "ndp/wire/protocol.h"

namespace ndtrain::ndp {

bool is_store_name(std::string_view name) {
  if (name.empty() || name.size() > kStoreNameBytes || name[0] == '.' || name[0] == '-') {
    return false;
  }
  return std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

std::string store_in_process(std::string_view collection, std::string_view process) {
  return std::string(collection) + "@" + std::string(process);
}

std::string_view process_of(std::string_view store) {
  const size_t at = store.find('@');
  return at == store.npos ? store : store.substr(at + 1);
}

bool names_store(std::string_view name) {
  const std::string_view process = process_of(name);
  if (process.size() == name.size()) return is_store_name(name);
  return name.size() <= kStoreNameBytes && is_store_name(process) &&
         is_store_name(name.substr(0, name.size() - process.size() - 1));
}

StoreSession::StoreSession(wire::Hello hello, TunerIdentity known, uint64_t seed, Time last_retry,
                           std::function<int64_t()> unix_seconds)
    : hello_(std::move(hello)),
      known_(std::move(known)),
      rng_(seed, "store session"),
      last_retry_(last_retry),
      unix_seconds_(std::move(unix_seconds)),
      liveness_(kHeartbeat, Time(0)) {
  for (uint32_t p : kProtocols) hello_.add_protocols(p);
}

void StoreSession::put_in_force(std::span<const wire::InForce> versions) {
  hello_.clear_tasks();
  for (const wire::InForce& v : versions) {
    if (v.task().empty()) hello_.set_version_in_force(v.version());
    if (!v.task().empty()) *hello_.add_tasks() = v;
  }
}

StoreSession::Actions StoreSession::tick(Time now) {
  Actions a;
  if (state_ == State::kWaiting) {
    if (now < retry_at_) return a;
    state_ = State::kDialling;
    liveness_ = Liveness(kHeartbeat, now);
    a.dial = true;
    return a;
  }
  if (state_ == State::kOpen) liveness_.look(now);  // before, nobody looks every heartbeat
  if (liveness_.dead(now)) {
    return end(now, state_ == State::kOpen ? "the Tuner has fallen silent" : "no answer", true);
  }
  if (state_ == State::kOpen && liveness_.ping_due(now)) {
    a.send.emplace_back().mutable_ping();
    stamp(now, a.send.back());
  }
  return a;
}

StoreSession::Actions StoreSession::opened(Time now) {
  Actions a;
  if (state_ != State::kDialling) return a;
  state_ = State::kGreeting;
  liveness_ = Liveness(kHeartbeat, now);
  hello_.set_tuner(known_.id);
  hello_.set_newest_term(known_.term);
  hello_.set_newest_start(known_.start);
  *a.send.emplace_back().mutable_hello() = hello_;
  return a;
}

StoreSession::Actions StoreSession::message(Time now, const wire::ToStore& message) {
  Actions a;
  if (state_ != State::kGreeting && state_ != State::kOpen) return a;
  liveness_.heard(now);
  if (message.has_refusal()) {
    const wire::Refusal& r = message.refusal();
    return end(now, "refused: " + r.text(), r.reason() == wire::Refusal::STORE_TAKEN);
  }
  if (state_ == State::kGreeting) return welcome(now, message);
  if (message.body_case() == wire::ToStore::BODY_NOT_SET) {
    return end(now, "the Tuner sent a message of an unknown kind", false);
  }
  if (message.has_welcome()) return end(now, "the Tuner greets a second time", false);
  a.deliver = message.term() == known_.term && !message.has_ping();
  return a;
}

StoreSession::Actions StoreSession::welcome(Time now, const wire::ToStore& message) {
  if (!message.has_welcome()) return end(now, "the Tuner did not greet", false);
  const wire::Welcome& w = message.welcome();
  if (std::ranges::find(kProtocols, w.protocol()) == std::end(kProtocols)) {
    return end(now, "the Tuner speaks protocol " + std::to_string(w.protocol()), false);
  }
  if (!hello_.collection().empty() && w.protocol() < kSpeaksOfTasks) {
    return end(now,
               "the Tuner is of an older program, and knows no collection but the default one; "
               "update it",
               false);
  }
  if (w.tuner() == known_.id && message.term() < known_.term) {
    return end(now,
               "an old Tuner answers: its term is " + std::to_string(message.term()) + ", " +
                   std::to_string(known_.term) + " has been seen",
               false);
  }
  const TunerIdentity met{w.tuner(), message.term(), w.start()};
  if (is_twin(known_, met)) return end(now, "refused: " + refusal_of_twin(met.term), false);
  if (unix_seconds_ && is_beyond(known_, met, unix_seconds_())) {
    return end(now, "refused: " + refusal_of_term(met.term), false);
  }
  Actions a;
  if (met != known_) a.remember = known_ = met;
  state_ = State::kOpen;
  retry_ = kFirstRetry;
  window_ = w.window();
  relays_photos_ = w.relays_photos();
  protocol_ = w.protocol();
  const auto heartbeat = std::chrono::milliseconds(std::clamp(w.heartbeat_ms(), 10u, 600'000u));
  liveness_ = Liveness(heartbeat, now);
  a.note = "session with the Tuner, term " + std::to_string(known_.term);
  return a;
}

StoreSession::Actions StoreSession::closed(Time now, const std::string& reason) {
  if (state_ == State::kWaiting) return {};
  Actions a = end(now, reason, true);
  a.close = false;
  return a;
}

StoreSession::Actions StoreSession::refuse(Time now, const std::string& why) {
  if (state_ == State::kWaiting) return {};
  return end(now, "the Tuner is refused: " + why, false);
}

// Half to all of a time that doubles, so that many stores do not come back as one.
StoreSession::Actions StoreSession::end(Time now, std::string why, bool hurry) {
  state_ = State::kWaiting;
  if (!hurry) retry_ = last_retry_;
  const auto spread = static_cast<uint64_t>(retry_.count() / 2);
  retry_at_ = now + retry_ / 2 + Time(static_cast<int64_t>(rng_.next_bits() % (spread + 1)));
  retry_ = std::min(retry_ * 2, last_retry_);
  Actions a;
  a.close = true;
  a.note = std::move(why);
  return a;
}

void StoreSession::stamp(Time now, wire::FromStore& message) {
  message.set_term(known_.term);
  liveness_.said(now);
}

StoreSession::Time StoreSession::next() const {
  if (state_ == State::kWaiting) return retry_at_;
  return state_ == State::kOpen ? liveness_.next() : liveness_.dead_at();  // no pings before
}

}  // namespace ndtrain::ndp
