// What a role protects its HTTP with: the tokens and the audit log of its state directory, and a
// certificate.
#pragma once

#include <string>

#include "framework/tls/tls.h"
#include "ndp/http/access.h"
#include "ndp/http/audit.h"
#include "ndp/http/http_client.h"

namespace ndtrain::ndp {

struct HttpSecurity {
  std::string certificate, key;  // PEM; empty: in the clear
  std::string authority;         // PEM, of others that this asks; empty: the system's
  bool demanded = false;         // see Access::Setting
  // Hosts that it is asked by, besides those of its address and certificate: a proxy's, say.
  std::vector<std::string> names = {};
  TlsVersion oldest = TlsVersion::k13;  // that is spoken
  bool open_loopback = false;           // to all users of the machine, while there is no token
  std::string revoked = {};  // lists of the authority in PEM: none in them is asked; "": none
  double rate = 0;           // see HttpProtection
  bool tls() const { return !certificate.empty(); }
  bool operator==(const HttpSecurity&) const = default;
};

class HttpGuard {
 public:
  // `shown`: what people give to --state, where it is another name than `directory`. Throws Error
  // when the tokens cannot be read, or certificate and key do not do.
  HttpGuard(Fs& fs, Clock& clock, const std::string& directory, const std::string& collection,
            const HttpSecurity& security, const std::string& shown = "");

  // For connections from now on: certificate and key, authority and who is revoked; the rest stays
  // as it is. Where it is not ok, all does. From one thread.
  Status renew(const HttpSecurity& security);

  Access& access() { return access_; }
  AuditLog& audit() { return audit_; }
  // Both of what this guards, which must outlive the server.
  HttpProtection protection() { return {&access_, &audit_, tls_, names_, rate_}; }
  HttpServer::Route audit_route();  // GET /audit
  // To ask another role by `token`.
  HttpTrust trust(std::string token) const { return {std::move(token), authority_}; }

 private:
  Access access_;
  AuditLog audit_;
  const std::vector<std::string> names_;
  const double rate_;
  std::shared_ptr<TlsServer> tls_;  // null: in the clear
  const std::shared_ptr<TlsClient> authority_;
};

}  // namespace ndtrain::ndp
