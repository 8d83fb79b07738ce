// What the clients of an HTTP server may hold up of it. Those of a request's head, of its path and
// of all connections are in framework/core/limits.h.
#pragma once

#include <chrono>
#include <cstdint>

#include "framework/core/limits.h"

namespace ndtrain::limits {

inline constexpr int64_t kHttpBody = int64_t{64} << 10;  // bytes, of a route that says no other
inline constexpr int64_t kHttpPerAddress = 64;           // connections of one client
inline constexpr int64_t kHttpHandlers = 96;             // threads
inline constexpr int64_t kHttpReserved = 8;  // of these, for health, metrics and operators
// Who moves fewer bytes a second than this uses up the time that it has.
inline constexpr int64_t kHttpSlowest = int64_t{64} << 10;

}  // namespace ndtrain::limits

namespace ndtrain::ndp {

// One server's. The times are for the client's part: from the connection, or the last answer, to
// the whole head, and so on. A body and an answer have a second more for every kHttpSlowest bytes.
struct HttpLimits {
  using Time = std::chrono::milliseconds;

  // From so many on, idle and slow ones make way; four times as many are never open. Of requests,
  // so many are handled at once that are of no urgency.
  int64_t connections = limits::kHttpConnections;
  // 127.0.0.1, ::1 and unix sockets, where a proxy may stand, have those of all.
  int64_t per_address = limits::kHttpPerAddress;
  int64_t handlers = limits::kHttpHandlers;
  Time head{10'000};
  Time body{30'000};
  Time idle{60'000};  // between requests
  Time write{30'000};
  Time patience{2'000};  // with one that is slow, before it makes way to others
};

}  // namespace ndtrain::ndp
