// TLS for what is asked over HTTP: what a server shows, and whom a client believes. TLS 1.2 or
// newer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/core/net.h"

struct ssl_ctx_st;

namespace ndtrain {

// What a server shows of itself. Thread-safe.
class TlsServer {
 public:
  // A chain of certificates and the key of the first, in PEM. kCorrupt: they are none, or do not
  // belong together.
  static Result<std::shared_ptr<const TlsServer>> make(const std::string& certificate,
                                                       const std::string& key);
  ssl_ctx_st* native() const { return context_.get(); }
  // The hosts that the certificate is for: DNS names, one label of which may be "*", and addresses.
  const std::vector<std::string>& hosts() const { return hosts_; }

 private:
  TlsServer(std::shared_ptr<ssl_ctx_st> context, std::vector<std::string> hosts)
      : context_(std::move(context)), hosts_(std::move(hosts)) {}
  std::shared_ptr<ssl_ctx_st> context_;
  std::vector<std::string> hosts_;
};

// Whom a client believes. Thread-safe.
class TlsClient {
 public:
  // The authorities in PEM; the system's own when it is empty. kCorrupt: there are none in it.
  static Result<std::shared_ptr<const TlsClient>> make(const std::string& authorities);
  // The stream once its other side has shown that it is `host`, a DNS name or an address; else why
  // it has not.
  Result<std::unique_ptr<Stream>> wrap(std::unique_ptr<Stream> stream, const std::string& host,
                                       std::chrono::milliseconds patience) const;

 private:
  explicit TlsClient(std::shared_ptr<ssl_ctx_st> context) : context_(std::move(context)) {}
  std::shared_ptr<ssl_ctx_st> context_;
};

}  // namespace ndtrain
