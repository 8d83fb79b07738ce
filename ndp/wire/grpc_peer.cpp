#include "ndp/wire/grpc_peer.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security_constants.h>
#include <grpc/support/log.h>

#include <mutex>
#include <string_view>

#include "framework/core/log.h"

namespace ndtrain::wire {
using namespace ndp;

namespace {

// A peer whose machine is gone, or whose process stands still, answers no ping: its stream breaks
// after the sum of both, however much waits to be written to it.
constexpr int kPingAfterMs = 10000, kAnswerWithinMs = 10000;

constexpr ChannelSetting kSettings[] = {
    {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kGrpcMessage},
    {GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1},
    {GRPC_ARG_KEEPALIVE_TIME_MS, kPingAfterMs},
    {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kAnswerWithinMs},
    {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
    {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingAfterMs / 2},
};

void to_our_log(gpr_log_func_args* line) { log::debug("grpc: {}", line->message); }

}  // namespace

std::span<const ChannelSetting> channel_settings() { return kSettings; }

void log_grpc_quietly() {
  static std::once_flag once;
  std::call_once(once, [] { gpr_set_log_function(to_our_log); });
}

std::shared_ptr<grpc::ChannelCredentials> client_credentials(const LinkSecurity& security) {
  if (!security.on()) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({security.authority, security.key, security.certificate});
}

std::string readable_peer(const std::string& uri) {
  std::string peer = uri;
  for (const std::string_view scheme : {"ipv4:", "ipv6:"}) {
    if (peer.starts_with(scheme)) peer.erase(0, scheme.size());
  }
  const auto decode = [&](std::string_view code, char c) {
    for (size_t at; (at = peer.find(code)) != std::string::npos;) {
      peer.replace(at, code.size(), 1, c);
    }
  };
  decode("%5B", '[');
  decode("%5D", ']');
  return peer;
}

std::string certified_name(const grpc::AuthContext& context) {
  const auto names = context.FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
  if (names.empty() || !context.IsPeerAuthenticated()) return "";
  return std::string(names.front().data(), names.front().size());
}

std::string shown_certificate(const grpc::AuthContext& context) {
  const auto shown = context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (shown.empty() || !context.IsPeerAuthenticated()) return "";
  return std::string(shown.front().data(), shown.front().size());
}

std::vector<std::string> certified_hosts(const grpc::AuthContext& context) {
  std::vector<std::string> hosts;
  if (!context.IsPeerAuthenticated()) return hosts;
  for (const auto& host : context.FindPropertyValues(GRPC_X509_SAN_PROPERTY_NAME)) {
    hosts.emplace_back(host.data(), host.size());
  }
  return hosts;
}

std::string revoked(const std::string& name) {
  return "the certificate of '" + name + "' is revoked";
}

std::string too_large(const std::string& peer, size_t bytes) {
  return peer + ": a message of " + std::to_string(bytes) + " bytes; the limit is " +
         std::to_string(limits::kMessage);
}

}  // namespace ndtrain::wire
