#include "ndp/http/tickets.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <charconv>

#include "framework/core/hash.h"
#include "ndp/http/random_secret.h"

namespace ndtrain::ndp {
namespace {

constexpr std::string_view kTicketPrefix = "ndtt_";

Digest mac(const std::string& key, const std::string& text) {
  Digest digest = {};
  unsigned size = digest.size();
  if (!HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
            reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
            &size)) {
    throw Error("OpenSSL: no HMAC");
  }
  return digest;
}

std::string random_key() {
  const auto bytes = random_secret();
  return {bytes.begin(), bytes.end()};
}

std::string signed_text(const Ticket& t, const std::string& expires) {
  return "ticket\n" + (t.method == "HEAD" ? "GET" : t.method) + "\n" + t.path + "\n" + expires +
         "\n" + t.who;
}

}  // namespace

bool is_ticket(std::string_view token) { return token.starts_with(kTicketPrefix); }

std::string make_ticket(const std::string& key, const Ticket& ticket, int64_t now) {
  const std::string expires = std::to_string(now + kTicketSeconds);
  return std::string(kTicketPrefix) + expires + "_" + ticket.who + "_" +
         to_hex(mac(key, signed_text(ticket, expires)));
}

Result<std::string> who_shows(const std::string& token, const std::string& key,
                              const std::string& method, const std::string& path, int64_t now) {
  const Status wrong(Code::kCorrupt, "this ticket is not for " + method + " " + path + " here");
  const size_t first = token.find('_', kTicketPrefix.size()), last = token.rfind('_');
  if (key.empty() || !is_ticket(token) || first == token.npos || last <= first) return wrong;
  const std::string expires = token.substr(kTicketPrefix.size(), first - kTicketPrefix.size());
  const std::string who = token.substr(first + 1, last - first - 1);
  const std::string shown = token.substr(last + 1);
  const std::string right = to_hex(mac(key, signed_text({who, method, path}, expires)));
  if (shown.size() != right.size() ||
      CRYPTO_memcmp(shown.data(), right.data(), right.size()) != 0) {
    return wrong;
  }
  int64_t until = 0;
  const auto [end, error] = std::from_chars(expires.data(), expires.data() + expires.size(), until);
  if (error != std::errc() || now >= until || until - now > 2 * kTicketSeconds) {
    return Status(Code::kCancelled, "this ticket was good for a minute up to " + expires +
                                        ", and it is " + std::to_string(now) +
                                        " here; do the clocks agree?");
  }
  return who;
}

Tickets::Tickets(Clock& clock) : clock_(clock), secret_(random_key()) {}

std::string Tickets::key_of(const std::string& store) const {
  const Digest key = mac(secret_, "store\n" + store);
  return {key.begin(), key.end()};
}

std::string Tickets::make(const std::string& store, const Ticket& ticket) const {
  return make_ticket(key_of(store), ticket, clock_.unix_seconds());
}

}  // namespace ndtrain::ndp
