// A Net whose streams are encrypted, and whose ends know each other by certificates: for ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "framework/core/net.h"

struct ssl_ctx_st;

namespace ndtrain {
namespace tls {
class OpenStreams;
}

struct TlsNetOptions {
  // A key of AES-GCM is good for 388 GB at most (RFC 8446, 5.5).
  uint64_t rekey_bytes = uint64_t{64} << 30;
  std::string revoked = {};  // lists of the authority in PEM: who is in them is refused
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
  // As make(), for streams that are dialled or accepted from now on, also by listeners that are
  // there; those that are open, and whose other side the lists name, end. Where it is not ok, all
  // stays as it is.
  Status renew(const std::string& authority, const std::string& certificate, const std::string& key,
               const std::string& revoked);

  // Whose certificate is for servers, and names the host that is dialled; at a unix socket
  // localhost. kCorrupt: it is not, or there is no TLS.
  Result<std::unique_ptr<Stream>> dial(const std::string& address) override;
  // accept() waits for no handshake: the stream's first read or write makes it, and has kCorrupt
  // where the other side's certificate is not for clients and servers alike, as a rank's is.
  Result<std::unique_ptr<Listener>> listen(const std::string& address) override;

 private:
  friend class TlsListener;
  using Context = std::atomic<std::shared_ptr<ssl_ctx_st>>;

  TlsNet(Net& below, uint64_t rekey_bytes);

  Net& below_;
  const uint64_t rekey_bytes_;
  const std::shared_ptr<Context> context_ = std::make_shared<Context>();  // listeners', too
  const std::shared_ptr<tls::OpenStreams> streams_;
};

}  // namespace ndtrain
