#include "ndp/wire/link_security.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>

#include "framework/core/limits.h"
#include "framework/core/net.h"
#include "framework/core/utc_text.h"
#include "framework/tls/pem.h"

namespace ndtrain::ndp {
namespace {

using pem::Certificate, pem::Key;

constexpr char kMaker[] = "`ndtrain cert init` makes certificates";

Status unfit(const std::string& path, const std::string& why) {
  return {Code::kCorrupt, path + ": " + why};
}

struct Paths {
  const std::string &authority, &certificate;
};

std::optional<LinkRole> role_of(X509& certificate) {
  const std::optional<pem::Use> use = pem::use_of(certificate);
  if (!use) return std::nullopt;
  if (use->serves) return use->dials ? LinkRole::kMember : LinkRole::kTuner;
  return use->dials ? std::optional(LinkRole::kStore) : std::nullopt;
}

std::string owner(LinkRole role) {
  switch (role) {
    case LinkRole::kTuner:
      return "Tuner";
    case LinkRole::kStore:
      return "PipeStore";
    case LinkRole::kMember:
      return "member of a training";
  }
  return "";
}

Status unfit_for(LinkRole role, X509& certificate, const std::string& path) {
  const std::optional<LinkRole> shown = role_of(certificate);
  const std::string article = shown == LinkRole::kTuner ? "the " : "a ";
  return unfit(path, "is not for a " + owner(role) + "; " +
                         (shown ? "is it the certificate of " + article + owner(*shown) + "?"
                                : "it does not say that it is for clients and servers"));
}

// Why verification stopped, in terms of the files.
Status refusal(X509_STORE_CTX* verified, const Paths& paths, LinkRole role, int64_t now) {
  const int error = X509_STORE_CTX_get_error(verified);
  X509* const at = X509_STORE_CTX_get_current_cert(verified);
  const std::string& path =
      X509_STORE_CTX_get_error_depth(verified) == 0 ? paths.certificate : paths.authority;
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return unfit(path, "expired on " + utc_text(pem::seconds_of(*X509_get0_notAfter(at))) +
                             ", and it is " + utc_text(now) + " now; `ndtrain cert init` " +
                             (path == paths.certificate ? "with --force makes a new one"
                                                        : "in an empty directory makes new ones"));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return unfit(path, "is not valid before " +
                             utc_text(pem::seconds_of(*X509_get0_notBefore(at))) + ", and it is " +
                             utc_text(now) + " now; is this machine's clock right?");
    case X509_V_ERR_INVALID_PURPOSE:
      return unfit_for(role, *at, path);
    default:
      return unfit(paths.certificate, "was not issued by " + paths.authority + ": " +
                                          X509_verify_cert_error_string(error));
  }
}

Status verify(const std::vector<Certificate>& authorities, const std::vector<Certificate>& chain,
              const Paths& paths, LinkRole role, int64_t now) {
  const std::unique_ptr<X509_STORE, pem::Freed<X509_STORE_free>> store(X509_STORE_new());
  for (const Certificate& a : authorities) X509_STORE_add_cert(store.get(), a.get());
  const std::unique_ptr<STACK_OF(X509), pem::Freed<[](STACK_OF(X509) * s) { sk_X509_free(s); }>>
      others(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(others.get(), chain[i].get());
  const std::unique_ptr<X509_STORE_CTX, pem::Freed<X509_STORE_CTX_free>> context(
      X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(context.get(), store.get(), chain[0].get(), others.get()) != 1) {
    throw Error("OpenSSL: cannot begin to verify");
  }
  X509_STORE_CTX_set_time(context.get(), 0, now);
  X509_STORE_CTX_set_purpose(
      context.get(), role == LinkRole::kTuner ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
  const bool ok = X509_verify_cert(context.get()) == 1;
  const Status s = ok ? Status() : refusal(context.get(), paths, role, now);
  ERR_clear_error();
  if (!s.ok()) return s;
  const std::optional<LinkRole> shown = role_of(*chain[0]);
  const bool fits = shown ? *shown == role : role != LinkRole::kMember;
  return fits ? Status() : unfit_for(role, *chain[0], paths.certificate);
}

Result<std::string> read(Fs& fs, const std::string& path) {
  Result<std::string> text = fs.read(path, limits::kPemFile);
  if (text.ok() || text.status().code() != Code::kNotFound) return text;
  return Status(Code::kNotFound, text.status().message() + "; " + kMaker);
}

Status check_key(const std::string& text, const std::string& path, X509& own,
                 const std::string& certificate) {
  bool has_passphrase = false;
  const Key key = pem::key_in(text, &has_passphrase);
  if (has_passphrase) return unfit(path, "has a passphrase, and there is nobody to ask for it");
  if (!key) return unfit(path, "holds no private key in PEM");
  const bool fits = X509_check_private_key(&own, key.get()) == 1;
  ERR_clear_error();
  return fits ? Status() : unfit(path, "is not the key of " + certificate);
}

bool is_loopback(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes = {};
  if (host == "localhost") return true;
  if (::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1) return bytes[0] == 127;
  if (::inet_pton(AF_INET6, host.c_str(), bytes.data()) != 1) return false;
  return std::string(bytes.begin(), bytes.end()) == std::string(15, '\0') + '\1';
}

}  // namespace

std::optional<LinkRole> link_role_of(const std::string& certificate) {
  const std::vector<Certificate> found = pem::certificates_in(certificate);
  return found.empty() ? std::nullopt : role_of(*found[0]);
}

namespace {

// The text of the lists. They must be the authorities' and hold on.
Result<std::string> load_lists(Fs& fs, const std::vector<Certificate>& authorities,
                               const std::string& authority, const std::string& path, int64_t now) {
  Result<std::string> text = read(fs, path);
  if (!text.ok()) return text;
  const std::vector<pem::RevocationList> lists = pem::revocation_lists_in(*text);
  if (lists.empty()) return unfit(path, "holds no revocation list in PEM");
  for (const pem::RevocationList& list : lists) {
    const bool known = std::ranges::any_of(authorities, [&](const Certificate& a) {
      return X509_CRL_verify(list.get(), X509_get0_pubkey(a.get())) == 1;
    });
    ERR_clear_error();
    if (!known) return unfit(path, "is not signed by " + authority);
    const ASN1_TIME* const next = X509_CRL_get0_nextUpdate(list.get());
    if (next == nullptr || pem::seconds_of(*next) > now) continue;
    return unfit(path, "was to be replaced until " + utc_text(pem::seconds_of(*next)) +
                           ", and it is " + utc_text(now) + " now; get the authority's newest");
  }
  return text;
}

}  // namespace

Result<LinkSecurity> load_security(Fs& fs, const Clock& clock, LinkRole role,
                                   const std::string& authority, const std::string& certificate,
                                   const std::string& key, const std::string& revoked) {
  if (authority.empty() && certificate.empty() && key.empty() && revoked.empty()) {
    return LinkSecurity();
  }
  for (const auto& [path, what] :
       {std::pair(&authority, "the authority's certificate"),
        std::pair(&certificate, "a certificate"), std::pair(&key, "the key of the certificate")}) {
    if (path->empty()) {
      return Status(Code::kNotFound, std::string(what) + " is missing: a link is secured by an " +
                                         "authority, a certificate and its key; " + kMaker);
    }
  }
  const Result<std::string> a = read(fs, authority), c = read(fs, certificate), k = read(fs, key);
  for (const auto* text : {&a, &c, &k}) {
    if (!text->ok()) return text->status();
  }
  const std::vector<Certificate> authorities = pem::certificates_in(*a);
  if (authorities.empty()) return unfit(authority, "holds no certificate in PEM");
  const std::vector<Certificate> chain = pem::certificates_in(*c);
  if (chain.empty()) return unfit(certificate, "holds no certificate in PEM");
  if (Status s = check_key(*k, key, *chain[0], certificate); !s.ok()) return s;
  const int64_t now = clock.unix_seconds();
  if (Status s = verify(authorities, chain, {authority, certificate}, role, now); !s.ok()) return s;
  LinkSecurity security{.authority = *a, .certificate = *c, .key = *k};
  if (revoked.empty()) return security;
  Result<std::string> lists = load_lists(fs, authorities, authority, revoked, now);
  if (!lists.ok()) return lists.status();
  security.revoked = std::move(*lists);
  if (!is_revoked(security, *c)) return security;
  return unfit(certificate,
               "is revoked by " + revoked + "; `ndtrain cert init` with --force makes a new one");
}

bool is_revoked(const LinkSecurity& security, const std::string& certificate) {
  if (security.revoked.empty()) return false;
  const std::vector<Certificate> chain = pem::certificates_in(certificate);
  return !chain.empty() &&
         std::ranges::any_of(pem::revocation_lists_in(security.revoked),
                             [&](const auto& list) { return pem::is_revoked(*chain[0], *list); });
}

bool is_local(const std::string& address) {
  return address.starts_with("unix:") || is_loopback(host_of(address));
}

Status check_exposure(const std::string& address, bool secured, bool insecure, LinkRole role) {
  if (secured || insecure || is_local(address)) return {};
  const std::string made = role == LinkRole::kMember ? "DIR --member NAME=HOST" : "DIR";
  return {Code::kUnsupported,
          address + " can be reached by other machines: give certificates with --ca, --cert and " +
              "--key (`ndtrain cert init " + made +
              "` makes them), or let anybody in with --insecure"};
}

}  // namespace ndtrain::ndp
