// TLS over a Stream. Internal to framework/tls.
#pragma once

#include <openssl/ssl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "framework/core/net.h"
#include "framework/tls/pem.h"

namespace ndtrain::tls {

enum class End { kDialled, kAccepted };

class TlsStream;

// The streams of a TlsNet, which end when a list names the other side's certificate. Thread-safe.
class OpenStreams {
 public:
  void add(TlsStream& stream);
  void remove(TlsStream& stream);
  void revoke(std::vector<pem::RevocationList> lists);  // in the place of those before
  bool refuses(X509& certificate) const;

 private:
  bool names(X509& certificate) const;  // under the mutex

  mutable std::mutex mutex_;  // of all below
  std::set<TlsStream*> all_;
  std::vector<pem::RevocationList> lists_;
};

// The handshake is made by handshake(), else by what comes first of read and write, and waits no
// longer than these; one that came to nothing because of the other side's silence goes on with the
// next. Both directions at once, as Stream has it. kCorrupt: what comes is not as it should be, or
// a certificate does not do; else what the stream below says. A close_notify is read as an end, and
// an end without one is none (kIo).
class TlsStream final : public Stream {
 public:
  // Where that is possible (TLS 1.3), there is another key after `rekey_bytes` that were written.
  TlsStream(std::unique_ptr<Stream> below, SSL_CTX* context, End end,
            uint64_t rekey_bytes = UINT64_MAX, std::shared_ptr<OpenStreams> among = nullptr);
  ~TlsStream() override;

  // The host that the other side's certificate has to name, before the handshake. kUnsupported: it
  // is no name of one.
  Status expect(const std::string& host);
  Status handshake(std::chrono::milliseconds patience);

  Result<size_t> read(std::span<std::byte> to, std::chrono::milliseconds timeout) override;
  Status write(std::span<const std::byte> bytes) override;
  void close() override { below_->close(); }
  std::string peer() const override { return below_->peer(); }

  // The other side's certificate; null before the handshake is done. Any thread.
  pem::Certificate shown();
  void end_revoked();  // from any thread; read() and write() have kCorrupt from then on

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  using Ssl = std::unique_ptr<SSL, pem::Freed<SSL_free>>;

  Status handshake_until(Deadline deadline);
  // The other side's next bytes, for OpenSSL. One thread at a time.
  Status feed(Deadline deadline);
  void drain();
  // What OpenSSL has for the other side, into outgoing_. In the handshake, or under both mutexes.
  void take_outgoing();
  Status failed(const char* what);
  Status with_reason(const Status& status) const;
  std::string objection(long verified) const;

  const std::unique_ptr<Stream> below_;
  const uint64_t rekey_bytes_;
  const std::shared_ptr<OpenStreams> among_;  // null: none
  std::atomic<bool> ready_ = false;           // the handshake is done
  std::atomic<bool> revoked_ = false;         // and the other side has been since
  std::mutex handshake_;                      // who makes it; of what follows until it is done
  Status broken_;                             // it cannot be made
  std::mutex writing_;                        // the order of what is written; of outgoing_
  std::mutex ssl_mutex_;                      // of ssl_; never held while below_ is waited for
  Ssl ssl_;
  BIO* from_below_;  // ssl_'s
  BIO* to_below_;
  std::array<std::byte, 64 << 10> incoming_;
  std::vector<std::byte> outgoing_;
  uint64_t written_ = 0;  // with this key
};

}  // namespace ndtrain::tls
