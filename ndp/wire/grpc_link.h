// Links over gRPC: the service of wire.proto, one bidirectional stream per PipeStore or member,
// which dials. gRPC stays inside grpc_*.cpp.
//
// Messages are handed off and never block the caller; they are written in order. A message to a
// link that is closed is dropped: its LinkClosed is in the events, or will be. A link is read as
// far ahead of who takes its events as ReadAhead has it. A stream that breaks, is closed by the
// other end or carries a message beyond limits::kMessage gives one LinkClosed with the reason. gRPC
// is not fork-safe: a process that has one of these must not fork.
#pragma once

#include <memory>
#include <string>

#include "ndp/wire/link.h"
#include "ndp/wire/link_security.h"
#include "ndp/wire/wire.pb.h"

namespace ndtrain::ndp {

// The Tuner's end of all its links.
class LinkServer {
 public:
  // `address` is "host:port" (port 0: any) or "unix:/path". kIo when it cannot be had. `events`
  // and `members`, which members' links are in (null: there are none), must outlive the server.
  static Result<std::unique_ptr<LinkServer>> listen(const std::string& address,
                                                    const LinkSecurity& security,
                                                    LinkEvents<wire::FromStore>& events,
                                                    LinkEvents<wire::FromStore>* members = nullptr);
  virtual ~LinkServer() = default;  // closes every link and waits for gRPC's threads

  virtual std::string address() const = 0;  // with the port the system chose
  virtual void send(LinkId link, wire::ToStore message) = 0;
  // Bytes of messages that were sent and are not written yet. In memory: none.
  virtual size_t waiting(LinkId) const { return 0; }
  // What was sent before is still written; then the stream ends.
  virtual void close(LinkId link) = 0;
  // Of links from now on; those that are there stay, but for those whose certificate it revokes:
  // they end. Certificates may be others, not none where there were some. In memory: nothing.
  virtual void renew(const LinkSecurity&) {}
};

enum class LinkKind : uint8_t { kStore, kMember };

// A PipeStore's or a member's end of one link.
class LinkClient {
 public:
  // Dials at once and in the background: the events say whether it came to something (LinkOpened
  // when the stream is there, or LinkClosed with the reason it is not).
  static std::unique_ptr<LinkClient> dial(const std::string& address, const LinkSecurity& security,
                                          LinkId id, LinkEvents<wire::ToStore>& events,
                                          LinkKind kind = LinkKind::kStore);
  // Breaks the stream, whose LinkClosed is in the events on return; takes a second at most,
  // whatever the other end does.
  virtual ~LinkClient() = default;

  virtual void send(wire::FromStore message) = 0;
  virtual size_t waiting() const { return 0; }  // as LinkServer's
  virtual void close() = 0;
  // Ends where the Tuner's certificate is revoked. In memory: never.
  virtual void end_if_revoked(const LinkSecurity&) {}
};

}  // namespace ndtrain::ndp
