#include "ndp/http/http_drain.h"

#include "framework/core/log.h"

namespace ndtrain::ndp {

void drain_requests(HttpServer* server, std::chrono::milliseconds patience,
                    const std::function<void()>& turn) {
  if (!server) return;
  server->drain();
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!server->drained()) {
    if (std::chrono::steady_clock::now() >= until) {
      log::warn("{}: requests that did not end within {:.1f} s of the stop are cut off",
                server->address(), std::chrono::duration<double>(patience).count());
      return;
    }
    turn();
  }
}

}  // namespace ndtrain::ndp
