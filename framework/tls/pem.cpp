#include "framework/tls/pem.h"

#include <openssl/err.h>

#include <array>
#include <ctime>

#include "framework/core/error.h"

namespace ndtrain::pem {
namespace {

using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;

Bio reading(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

int no_passphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

template <typename Write>
std::string written(Write write) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (write(bio.get()) != 1) throw Error("OpenSSL: cannot write PEM");
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

template <typename Owned, auto read>
std::vector<Owned> all_in(const std::string& text) {
  const Bio bio = reading(text);
  std::vector<Owned> found;
  while (auto* one = read(bio.get(), nullptr, nullptr, nullptr)) found.emplace_back(one);
  const bool at_the_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_the_end) found.clear();
  return found;
}

}  // namespace

std::vector<Certificate> certificates_in(const std::string& text) {
  return all_in<Certificate, PEM_read_bio_X509>(text);
}

std::vector<RevocationList> revocation_lists_in(const std::string& text) {
  return all_in<RevocationList, PEM_read_bio_X509_CRL>(text);
}

Key key_in(const std::string& text, bool* has_passphrase) {
  *has_passphrase = false;
  Key key(PEM_read_bio_PrivateKey(reading(text).get(), nullptr, no_passphrase, has_passphrase));
  ERR_clear_error();
  return key;
}

std::string text_of(X509& certificate) {
  return written([&](BIO* to) { return PEM_write_bio_X509(to, &certificate); });
}

std::string text_of(EVP_PKEY& key) {
  return written([&](BIO* to) {
    return PEM_write_bio_PrivateKey(to, &key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

std::string text_of(X509_CRL& list) {
  return written([&](BIO* to) { return PEM_write_bio_X509_CRL(to, &list); });
}

bool is_revoked(X509& certificate, X509_CRL& list) {
  X509_REVOKED* entry = nullptr;
  return X509_NAME_cmp(X509_get_issuer_name(&certificate), X509_CRL_get_issuer(&list)) == 0 &&
         X509_CRL_get0_by_cert(&list, &entry, &certificate) == 1;
}

std::optional<Use> use_of(X509& certificate) {
  const uint32_t use = X509_get_extended_key_usage(&certificate);
  if (use == UINT32_MAX) return std::nullopt;  // for anything
  return Use{.serves = (use & XKU_SSL_SERVER) != 0, .dials = (use & XKU_SSL_CLIENT) != 0};
}

std::string name_in(X509& certificate) {
  std::array<char, 256> text = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(&certificate), NID_commonName, text.data(),
                            text.size());
  return text.data();
}

int64_t seconds_of(const ASN1_TIME& time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(&time, &parts) != 1) throw Error("OpenSSL: cannot read a time");
  return ::timegm(&parts);
}

}  // namespace ndtrain::pem
