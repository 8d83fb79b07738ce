#include "ndp/wire/tuner_connection.h"

#include <utility>
#include <variant>

#include "framework/core/log.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain::ndp {

TunerConnection::TunerConnection(Ports ports, wire::Hello hello, uint64_t seed, TunerEvents& events)
    : ports_(std::move(ports)),
      events_(events),
      session_(std::move(hello), ports_.state.known_tuner().or_throw(), seed, ports_.last_retry,
               [&clock = ports_.clock] { return clock.unix_seconds(); }) {}

void TunerConnection::handle(LinkEvent<wire::ToStore> event) {
  if (event.link != link_id_) return;  // of a link that was given up
  if (std::holds_alternative<LinkOpened>(event.what)) {
    if (ports_.photos) session_.put_photos(ports_.photos());
    apply(session_.opened(now()));
  } else if (const auto* closed = std::get_if<LinkClosed>(&event.what)) {
    apply(session_.closed(now(), closed->reason));
  } else {
    auto& message = std::get<wire::ToStore>(event.what);
    if (const Status s = wire::admit(message); !s.ok()) {
      return apply(session_.refuse(now(), s.message()));
    }
    const StoreSession::Actions actions = session_.message(now(), message);
    apply(actions);
    if (actions.deliver) events_.message(message);
  }
}

void TunerConnection::apply(const StoreSession::Actions& actions) {
  if (actions.remember) {
    const TunerIdentity known = ports_.state.known_tuner().or_throw();
    if (ports_.behind && is_behind(known, *actions.remember)) ports_.behind();
    ports_.state.remember(*actions.remember).or_throw();
  }
  for (const wire::FromStore& m : actions.send) link_->send(m);
  if (!session_.open()) events_.session_over();
  if (actions.close && link_) link_->close();
  if (!actions.note.empty()) log::info("{}", actions.note);
  if (actions.dial) link_ = ports_.dial(++link_id_);
}

void TunerConnection::send(wire::FromStore message) {
  session_.stamp(now(), message);
  link_->send(std::move(message));
}

void TunerConnection::leave(const std::string& reason) {
  if (!session_.open()) return;
  wire::FromStore m;
  m.mutable_leaving()->set_reason(wire::as_text(reason));
  send(std::move(m));
  link_->close();
}

void TunerConnection::drop(const std::string& reason) {
  link_->close();
  apply(session_.closed(now(), reason));
}

}  // namespace ndtrain::ndp
