// TLS for what is asked over HTTP: what a server shows, and whom a client believes. Both may be
// renewed: connections that begin from then on are by what is new, those that are there stay.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/core/net.h"

struct ssl_ctx_st;

namespace ndtrain {

enum class TlsVersion : uint8_t { k12, k13 };

// What a server shows of itself. Thread-safe.
class TlsServer {
 public:
  // A chain of certificates and the key of the first, in PEM. kCorrupt: they are none, or do not
  // belong together. Clients that speak none as new as `oldest` are refused.
  static Result<std::shared_ptr<TlsServer>> make(const std::string& certificate,
                                                 const std::string& key,
                                                 TlsVersion oldest = TlsVersion::k13);
  // As make(); where it is not ok, all stays as it is.
  Status renew(const std::string& certificate, const std::string& key);

  std::shared_ptr<ssl_ctx_st> native() const { return shown_.load()->context; }
  // The hosts that the certificate is for: DNS names, one label of which may be "*", and addresses.
  std::vector<std::string> hosts() const { return shown_.load()->hosts; }

 private:
  struct Shown {
    std::shared_ptr<ssl_ctx_st> context;
    std::vector<std::string> hosts;
  };
  explicit TlsServer(TlsVersion oldest) : oldest_(oldest) {}
  const TlsVersion oldest_;
  std::atomic<std::shared_ptr<const Shown>> shown_;
};

// Whom a client believes, by TLS 1.2 or newer: what a proxy speaks is not ours to say. Thread-safe.
class TlsClient {
 public:
  // The authorities in PEM; the system's own when it is empty. Servers that lists of theirs name
  // are refused, in PEM, too; "": none. kCorrupt: there are none in it.
  static Result<std::shared_ptr<TlsClient>> make(const std::string& authorities,
                                                 const std::string& revoked = {});
  // As make(); where it is not ok, all stays as it is.
  Status renew(const std::string& authorities, const std::string& revoked);
  // The stream once its other side has shown that it is `host`, a DNS name or an address; else why
  // it has not.
  Result<std::unique_ptr<Stream>> wrap(std::unique_ptr<Stream> stream, const std::string& host,
                                       std::chrono::milliseconds patience) const;

 private:
  TlsClient() = default;
  std::atomic<std::shared_ptr<ssl_ctx_st>> context_;
};

}  // namespace ndtrain
