// A Net whose streams are encrypted, and whose ends know each other by certificates: for ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "framework/core/net.h"

struct ssl_ctx_st;

namespace ndtrain {

struct TlsNetOptions {
  // A key of AES-GCM is good for 388 GB at most (RFC 8446, 5.5).
  uint64_t rekey_bytes = uint64_t{64} << 30;
};

// TLS 1.3 over another Net, which it borrows; streams and listeners may outlive it where those of
// the other one may. Each end shows a certificate of the authority. Thread-safe as the other one.
class TlsNet final : public Net {
 public:
  // Certificates of authorities, a chain of this side's, and the key of its first, all in PEM.
  // kCorrupt: they are none, or do not belong together.
  static Result<std::unique_ptr<TlsNet>> make(Net& below, const std::string& authority,
                                              const std::string& certificate,
                                              const std::string& key,
                                              const TlsNetOptions& options = {});

  // Whose certificate is for servers, and names the host that is dialled; at a unix socket
  // localhost. kCorrupt: it is not, or there is no TLS.
  Result<std::unique_ptr<Stream>> dial(const std::string& address) override;
  // accept() waits for no handshake: the stream's first read or write makes it, and has kCorrupt
  // where the other side's certificate is not for clients and servers alike, as a rank's is.
  Result<std::unique_ptr<Listener>> listen(const std::string& address) override;

 private:
  TlsNet(Net& below, std::shared_ptr<ssl_ctx_st> context, const TlsNetOptions& options)
      : below_(below), context_(std::move(context)), options_(options) {}

  Net& below_;
  const std::shared_ptr<ssl_ctx_st> context_;
  const TlsNetOptions options_;
};

}  // namespace ndtrain
