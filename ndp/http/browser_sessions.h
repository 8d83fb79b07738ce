// Signing in with a browser: a code, good once and for a minute, becomes a cookie, good for half a
// day. Either stands for a token, whatever becomes of that. Kept in memory, as digests: who starts
// the server anew ends them all.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "framework/core/hash.h"

namespace ndtrain::ndp {

inline constexpr std::chrono::seconds kLoginCode{60};     // how long one is good
inline constexpr std::chrono::hours kBrowserSession{12};  // that a cookie is for
inline constexpr size_t kCodesOfToken = 8;                // then its oldest goes, as the next
inline constexpr size_t kSessionsOfToken = 32;

// Not thread-safe. `now` is of a monotonic clock. `user`: whose process asks by loopback; a code is
// good for the user that asked for it alone, root's for anybody, and a cookie for the user whose
// browser took it: browsers send it to every port of a host, so another user may get to see it.
class BrowserSessions {
 public:
  using Time = std::chrono::nanoseconds;
  using User = std::optional<uid_t>;

  std::string make_code(const Digest& token, User user, Time now);
  // The cookie's value; absent where the code is unknown, was used, has ended or is another user's.
  std::optional<std::string> redeem(std::string_view code, User user, Time now);
  // The digest of the token that the cookie's value stands for.
  std::optional<Digest> token_of(std::string_view value, User user, Time now) const;
  void end(std::string_view value);

 private:
  struct Entry {
    Digest secret, token;
    User user;
    Time ends;
  };
  using Entries = std::deque<Entry>;  // oldest first
  static std::string add(Entries& to, size_t most, const Digest& token, User user, Time ends,
                         Time now);
  static Entries::const_iterator find(const Entries& in, std::string_view secret, User user,
                                      Time now);

  Entries codes_, sessions_;
};

// The cookie's name where `host` (as the Host field says it) is asked: of each port another,
// because browsers tell ports apart no better, and over TLS one that no other host can set.
std::string session_cookie(std::string_view host, bool tls);
// Of a Cookie field; "" where it has none of that name.
std::string_view cookie_value(std::string_view field, std::string_view name);

}  // namespace ndtrain::ndp
