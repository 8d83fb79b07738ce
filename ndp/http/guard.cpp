#include "ndp/http/guard.h"

#include <algorithm>
#include <charconv>

#include "framework/core/log.h"
#include "ndp/http/peer_user.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kLines = 1000;  // that are shown unless more are asked for
constexpr size_t kMostLines = 1 << 20;

HttpResponse lines_of(const AuditLog& audit, const HttpRequest& request) {
  size_t most = kLines;
  if (const auto n = request.query.find("n"); n != request.query.end()) {
    const char* const end = n->second.data() + n->second.size();
    const auto [stop, error] = std::from_chars(n->second.data(), end, most);
    if (error != std::errc() || stop != end) {
      return http_error(400, "n=" + n->second + ": how many lines is a number");
    }
  }
  const Result<std::vector<std::string>> lines = audit.last(std::min(most, kMostLines));
  if (!lines.ok()) return http_error(500, lines.status().message());
  HttpResponse r{.type = "application/x-ndjson"};
  for (const std::string& line : *lines) r.body += line + "\n";
  return r;
}

}  // namespace

HttpGuard::HttpGuard(Fs& fs, Clock& clock, const std::string& directory,
                     const std::string& collection, const HttpSecurity& security,
                     const std::string& shown)
    : access_(fs, clock,
              {directory, collection, security.demanded,
               !security.open_loopback && tells_users_apart(), tells_users_apart()}),
      audit_(fs, clock, directory),
      names_(security.names),
      rate_(security.rate),
      authority_(TlsClient::make(security.authority, security.revoked).or_throw()) {
  if (security.tls()) {
    Result<std::shared_ptr<TlsServer>> tls =
        TlsServer::make(security.certificate, security.key, security.oldest);
    if (!tls.ok()) throw Error("TLS of HTTP: ", tls.status().message());
    tls_ = std::move(*tls);
  }
  if (!access_.on() && !security.open_loopback && !tells_users_apart()) {
    log::warn(
        "this system does not say whose a connection is: by loopback all users of the machine are "
        "let in while there is no token (--loopback open is the same without this line)");
  }
  if (access_.on() && access_.number() == 0) {
    log::warn(
        "nobody has a token yet, so HTTP answers /healthz only; `ndtrain token new NAME "
        "--role admin --state {}` makes one",
        shown.empty() ? directory : shown);
  }
}

Status HttpGuard::renew(const HttpSecurity& security) {
  if (Status s = authority_->renew(security.authority, security.revoked); !s.ok()) return s;
  return tls_ ? tls_->renew(security.certificate, security.key) : Status();
}

HttpServer::Route HttpGuard::audit_route() {
  return {"GET", "/audit", Role::kAdmin,
          [this](const HttpRequest& request) { return lines_of(audit_, request); }};
}

}  // namespace ndtrain::ndp
