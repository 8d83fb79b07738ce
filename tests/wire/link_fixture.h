// Events of links, waited for with a deadline, and messages of a given size.
#pragma once

#include <chrono>
#include <string>
#include <variant>

#include "framework/core/error.h"
#include "ndp/wire/grpc_link.h"

namespace ndtrain::support {
using namespace ndp;

using FromStores = LinkEvents<wire::FromStore>;
using ToStores = LinkEvents<wire::ToStore>;

inline constexpr std::chrono::seconds kLinkDeadline{
    60};  // keepalive may take 20 to find a dead link

template <typename Message>
std::string text_of(const LinkEvent<Message>& event) {
  if (const auto* o = std::get_if<LinkOpened>(&event.what)) return "LinkOpened " + o->peer;
  if (const auto* c = std::get_if<LinkClosed>(&event.what)) return "LinkClosed " + c->reason;
  return "a message of " + std::to_string(std::get<Message>(event.what).ByteSizeLong()) + " bytes";
}

// The next event, which is a `What`; throws when it is not, or does not come.
template <typename What, typename Message>
What expect(LinkEvents<Message>& events, LinkId* link = nullptr) {
  const auto event = events.take(kLinkDeadline);
  if (!event) throw Error("no event came");
  if (!std::holds_alternative<What>(event->what)) throw Error("unexpected: ", text_of(*event));
  if (link != nullptr) *link = event->link;
  return std::get<What>(event->what);
}

template <typename Message>
bool nothing_left(LinkEvents<Message>& events) {
  return !events.take(std::chrono::seconds(0));
}

// Reads messages up to the end of the link; how many there were.
template <typename Message>
int count_to_the_end(LinkEvents<Message>& events, std::string* reason) {
  for (int n = 0;; ++n) {
    const auto event = events.take(kLinkDeadline);
    if (!event) throw Error("the link did not end after ", n, " messages");
    if (const auto* closed = std::get_if<LinkClosed>(&event->what)) {
      *reason = closed->reason;
      return n;
    }
    const auto& message = std::get<Message>(event->what);
    if (message.term() != static_cast<uint64_t>(n)) throw Error("after ", n, ": ", message.term());
  }
}

inline std::string* payload(wire::FromStore& m) { return m.mutable_rows()->mutable_rows(); }
inline std::string* payload(wire::ToStore& m) { return m.mutable_model_part()->mutable_bytes(); }

// Of exactly `bytes` bytes, from a few dozen on.
template <typename Message>
Message message_of(size_t bytes, uint64_t term = 0) {
  Message message;
  message.set_term(term);
  std::string& text = *payload(message);
  text.assign(bytes, 'x');
  while (message.ByteSizeLong() > bytes) text.resize(text.size() - 1);
  if (message.ByteSizeLong() != bytes) throw Error("no message has ", bytes, " bytes");
  return message;
}

}  // namespace ndtrain::support
