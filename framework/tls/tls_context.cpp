#include "framework/tls/tls_context.h"

#include <openssl/err.h>

#include "framework/tls/pem.h"

namespace ndtrain::tls {

std::string last_reason() {
  const unsigned long e = ERR_peek_last_error();
  const char* text = ERR_reason_error_string(e);
  ERR_clear_error();
  return text ? text : "for no reason that OpenSSL tells";
}

std::shared_ptr<SSL_CTX> new_context(const SSL_METHOD* method, int least_version) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(method), SSL_CTX_free);
  if (!context || SSL_CTX_set_min_proto_version(context.get(), least_version) != 1) {
    throw Error("OpenSSL: no TLS: ", last_reason());
  }
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION);
  return context;
}

Status show(SSL_CTX& context, const std::string& certificate, const std::string& key) {
  const auto chain = pem::certificates_in(certificate);
  if (chain.empty()) return {Code::kCorrupt, "there is no certificate in PEM"};
  bool has_passphrase = false;
  const pem::Key own = pem::key_in(key, &has_passphrase);
  if (!own) return {Code::kCorrupt, "there is no key in PEM without a passphrase"};
  bool fits = SSL_CTX_use_certificate(&context, chain[0].get()) == 1 &&
              SSL_CTX_use_PrivateKey(&context, own.get()) == 1;
  for (size_t i = 1; fits && i < chain.size(); ++i) {
    fits = SSL_CTX_add1_chain_cert(&context, chain[i].get()) == 1;
  }
  if (!fits) return {Code::kCorrupt, "certificate and key do not fit: " + last_reason()};
  return {};
}

Status believe(SSL_CTX& context, const std::string& authorities) {
  const auto all = pem::certificates_in(authorities);
  if (all.empty()) return {Code::kCorrupt, "there is no certificate in PEM"};
  for (const auto& c : all) X509_STORE_add_cert(SSL_CTX_get_cert_store(&context), c.get());
  return {};
}

Status refuse(SSL_CTX& context, const std::string& revoked) {
  if (revoked.empty()) return {};
  const auto all = pem::revocation_lists_in(revoked);
  if (all.empty()) return {Code::kCorrupt, "there is no revocation list in PEM"};
  for (const auto& list : all) X509_STORE_add_crl(SSL_CTX_get_cert_store(&context), list.get());
  return {};
}

// OpenSSL's own check would want a list of every authority, too.
bool is_revoked(X509_STORE_CTX& verified) {
  X509* const at = X509_STORE_CTX_get_current_cert(&verified);
  const std::unique_ptr<STACK_OF(X509_CRL), pem::Freed<[](STACK_OF(X509_CRL) * s) {
                          sk_X509_CRL_pop_free(s, X509_CRL_free);
                        }>>
      lists(X509_STORE_CTX_get1_crls(&verified, X509_get_issuer_name(at)));
  for (int i = 0; lists && i < sk_X509_CRL_num(lists.get()); ++i) {
    if (!pem::is_revoked(*at, *sk_X509_CRL_value(lists.get(), i))) continue;
    X509_STORE_CTX_set_error(&verified, X509_V_ERR_CERT_REVOKED);
    return true;
  }
  return false;
}

int refuse_revoked(int ok, X509_STORE_CTX* verified) {
  return ok != 0 && !is_revoked(*verified) ? 1 : 0;
}

}  // namespace ndtrain::tls
