// Asks an HttpServer. Each call has a connection of its own, so that none is lost to a server that
// just then closes an idle one. Thread-safe.
#pragma once

#include <chrono>
#include <string>

#include "framework/core/net.h"
#include "framework/tls/tls.h"
#include "ndp/http/http_server.h"

namespace ndtrain::ndp {

// What a client shows of itself, and whom it believes.
struct HttpTrust {
  std::string token = {};                     // "": none
  std::shared_ptr<const TlsClient> tls = {};  // null: the system's authorities
};

class HttpClient {
 public:
  // `address` is "https://host:port", "http://host:port", the same without http:// or
  // "unix:/path". A server may be silent for `patience`, which for a long poll must be longer than
  // the poll.
  explicit HttpClient(const std::string& address,
                      std::chrono::milliseconds patience = std::chrono::seconds(10),
                      HttpTrust trust = {});

  // `path` may hold a query; its special characters are encoded already. Any answer of the server
  // is a value, whatever its status. The Status says who gave none, and why: kCancelled after
  // `patience`, kTooLarge beyond limits::kHttpAnswer.
  Result<HttpResponse> get(const std::string& path) const;
  Result<HttpResponse> post(const std::string& path, const std::string& body,
                            const std::string& type = "application/json") const;
  Result<HttpResponse> put(const std::string& path, const std::string& body) const;
  Result<HttpResponse> remove(const std::string& path) const;

 private:
  Result<HttpResponse> ask(const std::string& method, const std::string& path,
                           const std::string& body, const std::string& type) const;
  Result<std::unique_ptr<Stream>> connect() const;

  const bool secure_;
  const std::string address_;  // without http:// or https://
  const std::chrono::milliseconds patience_;
  HttpTrust trust_;
};

// As a part of a path or query: what is neither a letter, a digit nor one of -._~ is %XX.
std::string url_encoded(std::string_view text);

}  // namespace ndtrain::ndp
