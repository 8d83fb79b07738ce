// OpenSSL's certificates and keys as owned values, and to and from PEM. Internal to the sources
// that make and check certificates; only they include this.
#pragma once

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ndtrain::pem {

template <auto free>
struct Freed {
  template <typename T>
  void operator()(T* p) const {
    free(p);
  }
};
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using RevocationList = std::unique_ptr<X509_CRL, Freed<X509_CRL_free>>;

// In the order of the text; none where it has none, or one of them is broken.
std::vector<Certificate> certificates_in(const std::string& text);
std::vector<RevocationList> revocation_lists_in(const std::string& text);
// Null where there is none; a passphrase is not asked for, but told.
Key key_in(const std::string& text, bool* has_passphrase);

std::string text_of(X509& certificate);
std::string text_of(EVP_PKEY& key);
std::string text_of(X509_CRL& list);

// Whether its issuer's list has its serial number. Nobody looks here whether that issuer has signed
// the list.
bool is_revoked(X509& certificate, X509_CRL& list);

// What a certificate is for; none where it does not say.
struct Use {
  bool serves = false, dials = false;
};
std::optional<Use> use_of(X509& certificate);
std::string name_in(X509& certificate);  // its subject's common name; "" without one

int64_t seconds_of(const ASN1_TIME& time);  // Unix

}  // namespace ndtrain::pem
