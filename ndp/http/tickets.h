// Tickets: tokens for one request to one store, good for a minute. A Tuner makes them, for who may
// ask it the same thing; the store knows them by a key that both have, and that its session brought
// it. So nobody's own token ever goes to a store.
//
//   ndtt_EXPIRES_WHO_MAC    HMAC-SHA256 over method, path, EXPIRES (Unix seconds) and WHO, in hex
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "framework/core/clock.h"
#include "framework/core/status.h"

namespace ndtrain::ndp {

inline constexpr int64_t kTicketSeconds = 60;

struct Ticket {
  std::string who;  // whose token came with the request that it is made for
  std::string method, path;
};

bool is_ticket(std::string_view token);
std::string make_ticket(const std::string& key, const Ticket& ticket, int64_t now);
// Who asks; else why it does not do.
Result<std::string> who_shows(const std::string& token, const std::string& key,
                              const std::string& method, const std::string& path, int64_t now);

// A Tuner's side. Thread-safe; drawn anew by every start.
class Tickets {
 public:
  explicit Tickets(Clock& clock);
  std::string key_of(const std::string& store) const;
  std::string make(const std::string& store, const Ticket& ticket) const;

 private:
  Clock& clock_;
  const std::string secret_;
};

}  // namespace ndtrain::ndp
