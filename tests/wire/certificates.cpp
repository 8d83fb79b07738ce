#include "tests/wire/certificates.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "framework/core/error.h"

namespace ndtrain::support {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

void check(bool ok, const char* what) {
  if (!ok) throw Error("OpenSSL: ", what);
}

Key new_key() {
  Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  check(key != nullptr, "no key");
  return key;
}

void add_extension(X509* certificate, int nid, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
  check(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1, value);
  X509_EXTENSION_free(extension);
}

// Signed by `issuer` with its key; by itself when there is none.
Certificate certificate_of(const std::string& name, EVP_PKEY* key, X509* issuer,
                           EVP_PKEY* issuer_key) {
  static long serial = 0;
  Certificate c(X509_new(), X509_free);
  X509_set_version(c.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(c.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(c.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(c.get()), 24 * 3600);
  X509_NAME* subject = X509_get_subject_name(c.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(c.get(), issuer != nullptr ? X509_get_subject_name(issuer) : subject);
  X509_set_pubkey(c.get(), key);
  if (issuer == nullptr) {
    add_extension(c.get(), NID_basic_constraints, "critical,CA:TRUE");
  } else {
    add_extension(c.get(), NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost");
  }
  check(X509_sign(c.get(), issuer != nullptr ? issuer_key : key, EVP_sha256()) > 0, "cannot sign");
  return c;
}

template <typename Write>
std::string pem(Write write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
  check(write(bio.get()) == 1, "cannot write PEM");
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string pem_of(X509* certificate) {
  return pem([&](BIO* to) { return PEM_write_bio_X509(to, certificate); });
}

}  // namespace

struct Authority::Pair {
  Key key = new_key();
  Certificate certificate = certificate_of("authority", key.get(), nullptr, nullptr);
};

Authority::Authority() : own_(std::make_unique<Pair>()) {}
Authority::~Authority() = default;

LinkSecurity Authority::issue(const std::string& name) const {
  const Key key = new_key();
  const Certificate c = certificate_of(name, key.get(), own_->certificate.get(), own_->key.get());
  return {.authority = pem_of(own_->certificate.get()),
          .certificate = pem_of(c.get()),
          .key = pem([&](BIO* to) {
            return PEM_write_bio_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

}  // namespace ndtrain::support
