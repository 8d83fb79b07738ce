#include "framework/tls/tls_net.h"

#include <utility>

#include "framework/tls/pem.h"
#include "framework/tls/tls_context.h"
#include "framework/tls/tls_stream.h"

namespace ndtrain {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHandshake{10'000};

// OpenSSL has looked at its chain, its purpose and its dates by then.
int is_of_a_rank(int ok, X509_STORE_CTX* verified) {
  if (ok == 0 || tls::is_revoked(*verified)) return 0;
  if (X509_STORE_CTX_get_error_depth(verified) != 0) return 1;
  auto* const ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(verified, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const auto use = pem::use_of(*X509_STORE_CTX_get_current_cert(verified));
  if (SSL_is_server(ssl) == 0 || (use && use->serves && use->dials)) return 1;
  X509_STORE_CTX_set_error(verified, X509_V_ERR_INVALID_PURPOSE);
  return 0;
}

}  // namespace

class TlsListener final : public Listener {
 public:
  TlsListener(std::unique_ptr<Listener> below, std::shared_ptr<TlsNet::Context> context,
              std::shared_ptr<tls::OpenStreams> streams, uint64_t rekey_bytes)
      : below_(std::move(below)),
        context_(std::move(context)),
        streams_(std::move(streams)),
        rekey_bytes_(rekey_bytes) {}

  Result<std::unique_ptr<Stream>> accept(milliseconds timeout) override {
    Result<std::unique_ptr<Stream>> stream = below_->accept(timeout);
    if (!stream.ok()) return stream;
    return std::unique_ptr<Stream>(std::make_unique<tls::TlsStream>(
        std::move(*stream), context_->load().get(), tls::End::kAccepted, rekey_bytes_, streams_));
  }
  std::string address() const override { return below_->address(); }
  int descriptor() const override { return below_->descriptor(); }

 private:
  const std::unique_ptr<Listener> below_;
  const std::shared_ptr<TlsNet::Context> context_;
  const std::shared_ptr<tls::OpenStreams> streams_;
  const uint64_t rekey_bytes_;
};

TlsNet::TlsNet(Net& below, uint64_t rekey_bytes)
    : below_(below), rekey_bytes_(rekey_bytes), streams_(std::make_shared<tls::OpenStreams>()) {}

Result<std::unique_ptr<TlsNet>> TlsNet::make(Net& below, const std::string& authority,
                                             const std::string& certificate, const std::string& key,
                                             const TlsNetOptions& options) {
  std::unique_ptr<TlsNet> net(new TlsNet(below, options.rekey_bytes));
  if (Status s = net->renew(authority, certificate, key, options.revoked); !s.ok()) return s;
  return net;
}

Status TlsNet::renew(const std::string& authority, const std::string& certificate,
                     const std::string& key, const std::string& revoked) {
  const std::shared_ptr<SSL_CTX> context = tls::new_context(TLS_method(), TLS1_3_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     is_of_a_rank);
  // Each connection is verified anew.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  if (Status s = tls::believe(*context, authority); !s.ok()) return s;
  if (Status s = tls::refuse(*context, revoked); !s.ok()) return s;
  if (Status s = tls::show(*context, certificate, key); !s.ok()) return s;
  *context_ = context;
  streams_->revoke(pem::revocation_lists_in(revoked));
  return {};
}

Result<std::unique_ptr<Stream>> TlsNet::dial(const std::string& address) {
  Result<std::unique_ptr<Stream>> below = below_.dial(address);
  if (!below.ok()) return below;
  auto stream = std::make_unique<tls::TlsStream>(std::move(*below), context_->load().get(),
                                                 tls::End::kDialled, rekey_bytes_, streams_);
  if (Status s = stream->expect(host_of(address)); !s.ok()) return s;
  if (Status s = stream->handshake(kHandshake); !s.ok()) return s;
  return std::unique_ptr<Stream>(std::move(stream));
}

Result<std::unique_ptr<Listener>> TlsNet::listen(const std::string& address) {
  Result<std::unique_ptr<Listener>> below = below_.listen(address);
  if (!below.ok()) return below;
  return std::unique_ptr<Listener>(
      std::make_unique<TlsListener>(std::move(*below), context_, streams_, rekey_bytes_));
}

}  // namespace ndtrain
