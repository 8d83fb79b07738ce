// How a role's HTTP ends.
#pragma once

#include <chrono>
#include <functional>

#include "ndp/http/http_server.h"

namespace ndtrain::ndp {

inline constexpr std::chrono::seconds kHttpDrain{10};

// Lets the requests that are under way at `server` end, `patience` long at most; what is then left
// is cut off with the server, and the log says so. `turn` is called meanwhile, over and over: what
// handlers wait for goes on by it. Null: there is no server.
void drain_requests(HttpServer* server, std::chrono::milliseconds patience,
                    const std::function<void()>& turn);

}  // namespace ndtrain::ndp
