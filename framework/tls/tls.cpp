#include "framework/tls/tls.h"

#include <arpa/inet.h>

#include <array>
#include <utility>

#include "framework/tls/pem.h"
#include "framework/tls/tls_context.h"
#include "framework/tls/tls_stream.h"

namespace ndtrain {
namespace {

// In brackets where it is IPv6, as in an URL.
std::string text_of(const ASN1_OCTET_STRING& address) {
  const int size = ASN1_STRING_length(&address);
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (size != 4 && size != 16) return "";
  ::inet_ntop(size == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(&address), text.data(),
              text.size());
  return size == 4 ? std::string(text.data()) : "[" + std::string(text.data()) + "]";
}

std::vector<std::string> hosts_in(X509* certificate) {
  std::vector<std::string> hosts;
  const std::unique_ptr<GENERAL_NAMES, pem::Freed<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) {
      hosts.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                         static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      hosts.push_back(text_of(*name->d.iPAddress));
    }
  }
  return hosts;
}

}  // namespace

Result<std::shared_ptr<TlsServer>> TlsServer::make(const std::string& certificate,
                                                   const std::string& key, TlsVersion oldest) {
  const std::shared_ptr<TlsServer> made(new TlsServer(oldest));
  if (Status s = made->renew(certificate, key); !s.ok()) return s;
  return made;
}

Status TlsServer::renew(const std::string& certificate, const std::string& key) {
  const std::shared_ptr<SSL_CTX> context = tls::new_context(
      TLS_server_method(), oldest_ == TlsVersion::k12 ? TLS1_2_VERSION : TLS1_3_VERSION);
  if (Status s = tls::show(*context, certificate, key); !s.ok()) return s;
  X509* const own = SSL_CTX_get0_certificate(context.get());
  shown_ = std::make_shared<const Shown>(Shown{context, hosts_in(own)});
  return {};
}

Result<std::shared_ptr<TlsClient>> TlsClient::make(const std::string& authorities,
                                                   const std::string& revoked) {
  const std::shared_ptr<TlsClient> made(new TlsClient());
  if (Status s = made->renew(authorities, revoked); !s.ok()) return s;
  return made;
}

Status TlsClient::renew(const std::string& authorities, const std::string& revoked) {
  const std::shared_ptr<SSL_CTX> context = tls::new_context(TLS_client_method(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, tls::refuse_revoked);
  if (authorities.empty()) {
    SSL_CTX_set_default_verify_paths(context.get());
  } else if (Status s = tls::believe(*context, authorities); !s.ok()) {
    return s;
  }
  if (Status s = tls::refuse(*context, revoked); !s.ok()) return s;
  context_ = context;
  return {};
}

Result<std::unique_ptr<Stream>> TlsClient::wrap(std::unique_ptr<Stream> stream,
                                                const std::string& host,
                                                std::chrono::milliseconds patience) const {
  auto over = std::make_unique<tls::TlsStream>(std::move(stream), context_.load().get(),
                                               tls::End::kDialled);
  if (Status s = over->expect(host); !s.ok()) return s;
  if (Status s = over->handshake(patience); !s.ok()) return s;
  return std::unique_ptr<Stream>(std::move(over));
}

}  // namespace ndtrain
