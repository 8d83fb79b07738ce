// What both ends of a link over gRPC need, and no one else: for ndp/wire/grpc_*.cpp.
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "framework/core/limits.h"
#include "ndp/wire/grpc_link.h"

namespace ndtrain::wire {
using namespace ndp;

// gRPC's own limit on what it receives. It drops a longer message without telling the application
// of the server how long it was, so messages up to here are received, measured and refused.
inline constexpr int kGrpcMessage = 2 * static_cast<int>(limits::kMessage);

struct ChannelSetting {
  const char* name;
  int value;
};
std::span<const ChannelSetting> channel_settings();  // of both ends

// gRPC says what went wrong on stderr, and so do we: its lines go to our log, for debugging. Once
// per process, before anything else of gRPC.
void log_grpc_quietly();

// In the clear when the security is off; otherwise each end must show a certificate.
std::shared_ptr<grpc::ChannelCredentials> client_credentials(const LinkSecurity& security);

// "127.0.0.1:4711" of "ipv4:127.0.0.1:4711", and the like.
std::string readable_peer(const std::string& uri);
// The DNS names and addresses in the peer's verified certificate; an IPv6 address without brackets.
std::vector<std::string> certified_hosts(const grpc::AuthContext& context);
// The common name of the peer's verified certificate; "" without one.
std::string certified_name(const grpc::AuthContext& context);
// The peer's verified certificate in PEM; "" without one.
std::string shown_certificate(const grpc::AuthContext& context);
// Why a link with who shows the certificate of `name` is none.
std::string revoked(const std::string& name);
// Why a message of `bytes` from `peer` ends its link.
std::string too_large(const std::string& peer, size_t bytes);

}  // namespace ndtrain::wire
