#include "ndp/wire/certificates.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>

#include "framework/core/utc_text.h"
#include "framework/tls/pem.h"

namespace ndtrain::ndp {
namespace {

using pem::Certificate, pem::Key;

void check(bool ok, const std::string& what) {
  if (!ok) throw Error("OpenSSL: ", what);
}

Key new_key() {
  Key key(EVP_EC_gen("P-256"));
  check(key != nullptr, "no key");
  return key;
}

bool is_ip(const std::string& host) {
  const std::unique_ptr<ASN1_OCTET_STRING, pem::Freed<ASN1_OCTET_STRING_free>> ip(
      a2i_IPADDRESS(host.c_str()));
  return ip != nullptr;
}

// Not to be guessed, and not twice.
void set_serial(X509* certificate) {
  std::array<unsigned char, 16> bytes;
  check(RAND_bytes(bytes.data(), bytes.size()) == 1, "no random numbers");
  bytes[0] &= 0x7f;  // not negative
  const std::unique_ptr<BIGNUM, pem::Freed<BN_free>> number(
      BN_bin2bn(bytes.data(), bytes.size(), nullptr));
  check(BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr, "serial");
}

struct Extension {
  int nid;
  std::string value;
};

void add(X509* certificate, X509* issuer, const Extension& extension) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, pem::Freed<X509_EXTENSION_free>> made(
      X509V3_EXT_conf_nid(nullptr, &context, extension.nid, extension.value.c_str()));
  check(made != nullptr && X509_add_ext(certificate, made.get(), -1) == 1, extension.value);
}

// Signed by `issuer` with its key; by itself when there is none.
Credentials certify(const std::string& name, Validity validity, X509* issuer, EVP_PKEY* issuer_key,
                    const std::vector<Extension>& extensions) {
  const Key key = new_key();
  const Certificate c(X509_new());
  X509_set_version(c.get(), X509_VERSION_3);
  set_serial(c.get());
  check(ASN1_TIME_set(X509_getm_notBefore(c.get()), validity.from) != nullptr &&
            ASN1_TIME_set(X509_getm_notAfter(c.get()), validity.until) != nullptr,
        "no such time");
  X509_NAME* const subject = X509_get_subject_name(c.get());
  check(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                   reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
                                   0) == 1,
        "the name " + name + " cannot stand in a certificate");
  X509_set_issuer_name(c.get(), issuer != nullptr ? X509_get_subject_name(issuer) : subject);
  X509_set_pubkey(c.get(), key.get());
  add(c.get(), issuer, {NID_subject_key_identifier, "hash"});
  for (const Extension& e : extensions) add(c.get(), issuer, e);
  check(X509_sign(c.get(), issuer != nullptr ? issuer_key : key.get(), EVP_sha256()) > 0,
        "cannot sign");
  return {pem::text_of(*c), pem::text_of(*key)};
}

}  // namespace

Credentials make_authority(const std::string& name, Validity validity) {
  return certify(name, validity, nullptr, nullptr,
                 {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                  {NID_key_usage, "critical,keyCertSign,cRLSign"}});
}

namespace {

// What a certificate says of its owner's role (role_of).
const char* usage_of(LinkRole role) {
  switch (role) {
    case LinkRole::kTuner:
      return "serverAuth";
    case LinkRole::kStore:
      return "clientAuth";
    case LinkRole::kMember:
      return "serverAuth,clientAuth";
  }
  return "";
}

}  // namespace

namespace {

struct Issuer {
  Certificate certificate;
  Key key;
};

Result<Issuer> issuer_of(const Credentials& authority) {
  std::vector<Certificate> issuers = pem::certificates_in(authority.certificate);
  if (issuers.empty()) return Status(Code::kCorrupt, "the authority's certificate is not in PEM");
  bool has_passphrase = false;
  Key key = pem::key_in(authority.key, &has_passphrase);
  if (!key) {
    return Status(Code::kCorrupt, has_passphrase ? "the authority's key has a passphrase"
                                                 : "the authority's key is not in PEM");
  }
  X509* const issuer = issuers[0].get();
  if (X509_check_private_key(issuer, key.get()) != 1) {
    return Status(Code::kCorrupt, "the authority's key does not belong to its certificate");
  }
  if (X509_check_ca(issuer) != 1) {
    return Status(Code::kCorrupt, "the authority's certificate is not that of an authority");
  }
  return Issuer{std::move(issuers[0]), std::move(key)};
}

void set_number(X509_CRL& list, int64_t number) {
  const std::unique_ptr<ASN1_INTEGER, pem::Freed<ASN1_INTEGER_free>> n(ASN1_INTEGER_new());
  check(n && ASN1_INTEGER_set_int64(n.get(), number) == 1 &&
            X509_CRL_add1_ext_i2d(&list, NID_crl_number, n.get(), 0, 0) == 1,
        "no number of a list");
}

// By RFC 5280, 5.2.3: one more than the list has that it replaces.
int64_t next_number(const X509_CRL& list) {
  const std::unique_ptr<ASN1_INTEGER, pem::Freed<ASN1_INTEGER_free>> n(
      static_cast<ASN1_INTEGER*>(X509_CRL_get_ext_d2i(&list, NID_crl_number, nullptr, nullptr)));
  int64_t number = 0;
  return n && ASN1_INTEGER_get_int64(&number, n.get()) == 1 ? number + 1 : 1;
}

void add_entry(X509_CRL& list, const ASN1_INTEGER& serial, const ASN1_TIME& when) {
  std::unique_ptr<X509_REVOKED, pem::Freed<X509_REVOKED_free>> entry(X509_REVOKED_new());
  ASN1_INTEGER* const number = const_cast<ASN1_INTEGER*>(&serial);  // copied
  ASN1_TIME* const time = const_cast<ASN1_TIME*>(&when);
  check(entry && X509_REVOKED_set_serialNumber(entry.get(), number) == 1 &&
            X509_REVOKED_set_revocationDate(entry.get(), time) == 1 &&
            X509_CRL_add0_revoked(&list, entry.get()) == 1,
        "no entry of a list");
  static_cast<void>(entry.release());  // the list's
}

}  // namespace

Result<Credentials> issue(const Credentials& authority, const Subject& subject, Validity validity) {
  Result<Issuer> by = issuer_of(authority);
  if (!by.ok()) return by.status();
  X509* const issuer = by->certificate.get();
  validity.until = std::min(validity.until, pem::seconds_of(*X509_get0_notAfter(issuer)));
  if (validity.until <= validity.from) {
    return Status(Code::kCorrupt,
                  "the authority's certificate expired on " + utc_text(validity.until));
  }
  std::vector<Extension> extensions = {{NID_authority_key_identifier, "keyid:always"},
                                       {NID_basic_constraints, "critical,CA:FALSE"},
                                       {NID_key_usage, "critical,digitalSignature"},
                                       {NID_ext_key_usage, usage_of(subject.role)}};
  std::string names;
  for (const std::string& host : subject.hosts) {
    if (!is_host(host)) throw Error("'", host, "' is neither a DNS name nor an IP address");
    names += (names.empty() ? "" : ",") + std::string(is_ip(host) ? "IP:" : "DNS:") + host;
  }
  if (!names.empty()) extensions.push_back({NID_subject_alt_name, names});
  return certify(subject.name, validity, issuer, by->key.get(), extensions);
}

Result<std::string> revoke(const Credentials& authority, const std::string& list,
                           const std::string& certificate, int64_t now) {
  Result<Issuer> by = issuer_of(authority);
  if (!by.ok()) return by.status();
  X509* const issuer = by->certificate.get();
  const std::vector<Certificate> found = pem::certificates_in(certificate);
  if (found.empty() && !certificate.empty()) {
    return Status(Code::kCorrupt, "is no certificate in PEM");
  }
  if (!found.empty() && X509_verify(found[0].get(), X509_get0_pubkey(issuer)) != 1) {
    return Status(Code::kCorrupt, "was not issued by this authority");
  }
  const pem::RevocationList made(X509_CRL_new());
  int64_t number = 1;
  if (!list.empty()) {
    const std::vector<pem::RevocationList> earlier = pem::revocation_lists_in(list);
    if (earlier.size() != 1 || X509_CRL_verify(earlier[0].get(), X509_get0_pubkey(issuer)) != 1) {
      return Status(Code::kCorrupt, "the list that is there is not one of this authority's");
    }
    number = next_number(*earlier[0]);
    STACK_OF(X509_REVOKED)* const entries = X509_CRL_get_REVOKED(earlier[0].get());
    for (int i = 0; i < sk_X509_REVOKED_num(entries); ++i) {
      const X509_REVOKED* const entry = sk_X509_REVOKED_value(entries, i);
      add_entry(*made, *X509_REVOKED_get0_serialNumber(entry),
                *X509_REVOKED_get0_revocationDate(entry));
    }
  }
  const std::unique_ptr<ASN1_TIME, pem::Freed<ASN1_TIME_free>> time(ASN1_TIME_set(nullptr, now));
  if (!found.empty()) add_entry(*made, *X509_get0_serialNumber(found[0].get()), *time);
  set_number(*made, number);
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, nullptr, nullptr, made.get(), 0);
  const std::unique_ptr<X509_EXTENSION, pem::Freed<X509_EXTENSION_free>> by_key(
      X509V3_EXT_conf_nid(nullptr, &context, NID_authority_key_identifier, "keyid:always"));
  check(by_key && X509_CRL_add_ext(made.get(), by_key.get(), -1) == 1 &&
            X509_CRL_set_version(made.get(), X509_CRL_VERSION_2) == 1 &&
            X509_CRL_set_issuer_name(made.get(), X509_get_subject_name(issuer)) == 1 &&
            X509_CRL_set1_lastUpdate(made.get(), time.get()) == 1 &&
            X509_CRL_set1_nextUpdate(made.get(), X509_get0_notAfter(issuer)) == 1 &&
            X509_CRL_sort(made.get()) == 1 &&
            X509_CRL_sign(made.get(), by->key.get(), EVP_sha256()) > 0,
        "cannot sign a list");
  return pem::text_of(*made);
}

Result<Validity> validity_of(const std::string& certificate) {
  const std::vector<Certificate> found = pem::certificates_in(certificate);
  if (found.empty()) return Status(Code::kCorrupt, "is no certificate in PEM");
  return Validity{pem::seconds_of(*X509_get0_notBefore(found[0].get())),
                  pem::seconds_of(*X509_get0_notAfter(found[0].get()))};
}

bool is_host(const std::string& host) {
  if (is_ip(host)) return true;
  size_t label = 0;
  for (const char c : host) {
    const bool inside = ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9');
    if (inside || (c == '-' && label > 0)) {
      if (++label > 63) return false;
    } else if (c == '.' && label > 0) {
      label = 0;
    } else {
      return false;
    }
  }
  return label > 0 && host.size() <= 253;
}

}  // namespace ndtrain::ndp
