#include "ndp/http/browser_sessions.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cctype>

#include "ndp/http/random_secret.h"

namespace ndtrain::ndp {

std::string BrowserSessions::add(Entries& to, size_t most, const Digest& token, User user,
                                 Time ends, Time now) {
  std::erase_if(to, [&](const Entry& e) { return now >= e.ends; });
  const auto same = [&](const Entry& e) { return e.token == token; };
  if (static_cast<size_t>(std::ranges::count_if(to, same)) >= most) {
    to.erase(std::ranges::find_if(to, same));
  }
  std::string secret = to_hex(random_secret());
  to.push_back({sha256(secret), token, user, ends});
  return secret;
}

BrowserSessions::Entries::const_iterator BrowserSessions::find(const Entries& in,
                                                               std::string_view secret, User user,
                                                               Time now) {
  const Digest digest = sha256(secret);
  return std::ranges::find_if(in, [&](const Entry& e) {
    return CRYPTO_memcmp(e.secret.data(), digest.data(), digest.size()) == 0 && now < e.ends &&
           (!e.user || e.user == user);
  });
}

std::string BrowserSessions::make_code(const Digest& token, User user, Time now) {
  return add(codes_, kCodesOfToken, token, user == uid_t{0} ? User() : user, now + kLoginCode, now);
}

std::optional<std::string> BrowserSessions::redeem(std::string_view code, User user, Time now) {
  const auto it = find(codes_, code, user, now);
  if (it == codes_.end()) return std::nullopt;
  const Digest token = it->token;
  codes_.erase(it);
  return add(sessions_, kSessionsOfToken, token, user, now + kBrowserSession, now);
}

std::optional<Digest> BrowserSessions::token_of(std::string_view value, User user, Time now) const {
  const auto it = find(sessions_, value, user, now);
  return it == sessions_.end() ? std::nullopt : std::optional(it->token);
}

void BrowserSessions::end(std::string_view value) {
  const Digest digest = sha256(value);
  std::erase_if(sessions_, [&](const Entry& e) { return e.secret == digest; });
}

std::string session_cookie(std::string_view host, bool tls) {
  const size_t colon = host.rfind(':');
  const std::string_view port = colon == std::string_view::npos ? "" : host.substr(colon + 1);
  const bool is_port = !port.empty() && std::ranges::all_of(port, [](unsigned char c) {
    return std::isdigit(c) != 0;
  });
  return std::string(tls ? "__Host-ndtrain" : "ndtrain") + (is_port ? "_" + std::string(port) : "");
}

std::string_view cookie_value(std::string_view field, std::string_view name) {
  while (!field.empty()) {
    std::string_view pair = field.substr(0, field.find(';'));
    field.remove_prefix(std::min(pair.size() + 1, field.size()));
    pair.remove_prefix(std::min(pair.find_first_not_of(' '), pair.size()));
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return pair.substr(name.size() + 1);
    }
  }
  return "";
}

}  // namespace ndtrain::ndp
