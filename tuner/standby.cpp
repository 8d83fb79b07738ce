#include "tuner/standby.h"

#include <mutex>
#include <utility>

#include "framework/core/json.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "ndp/wire/security_reload.h"

namespace ndtrain::tuner {
namespace {

constexpr std::chrono::milliseconds kLook{500};  // between attempts

// HTTP of a process that has no state yet: tokens and all else come with that.
class WaitingHttp {
 public:
  explicit WaitingHttp(const StandbyConfig& config)
      : tls_(tls_of(config.http_security)),
        certificates_({"HTTP", config.read_http_security,
                       [this](const HttpSecurity& s) {
                         return tls_ ? tls_->renew(s.certificate, s.key) : Status();
                       }},
                      config.http_security) {
    if (config.http.empty()) return;
    std::vector<HttpServer::Route> routes{
        {"GET", "/healthz", Role::kAnyone, [this](const HttpRequest&) { return said(); }}};
    server_ =
        HttpServer::listen(
            config.http, std::move(routes), limits::kHttpBody,
            {.tls = tls_, .names = config.http_security.names, .rate = config.http_security.rate})
            .or_throw();
    log::info("a standby: {} on {}", tls_ ? "HTTPS" : "HTTP", server_->address());
  }

  void put(postgres::LeaseRow row, std::chrono::nanoseconds now) {
    certificates_.look(now);
    const std::lock_guard lock(mutex_);
    row_ = std::move(row);
  }

 private:
  static std::shared_ptr<TlsServer> tls_of(const HttpSecurity& s) {
    if (!s.tls()) return nullptr;
    return TlsServer::make(s.certificate, s.key, s.oldest).or_throw();
  }
  HttpResponse said() {
    const std::lock_guard lock(mutex_);
    const Json json = {{"status", "standby"}, {"term", row_.term}, {"held_by", row_.holder}};
    return {.body = json_text(json) + "\n"};
  }

  const std::shared_ptr<TlsServer> tls_;  // null: in the clear
  SecurityReload<HttpSecurity> certificates_;
  std::mutex mutex_;
  postgres::LeaseRow row_;
  std::unique_ptr<HttpServer> server_;
};

// An ok one: it may be taken.
Status look_at(const StandbyConfig& config, postgres::LeaseRow& row) {
  auto found = postgres::StateLease::look(config.state.url);
  if (!found.ok()) return found.status();
  row = std::move(*found);
  if (!row.held) return {};
  return {Code::kExists, "the state is held by " + row.holder};
}

}  // namespace

std::unique_ptr<SharedState> await_state(const StandbyConfig& config, Clock& clock,
                                         const std::function<bool()>& stop) {
  std::unique_ptr<WaitingHttp> http;
  postgres::LeaseRow row;
  std::string said;
  while (!stop()) {
    Status s = look_at(config, row);
    if (s.ok()) {
      auto state = SharedState::take(config.state);
      if (state.ok()) return std::move(*state);
      s = state.status();
    }
    if (s.code() != Code::kExists && s.code() != Code::kIo) s.or_throw();
    if (!http) http = std::make_unique<WaitingHttp>(config);
    if (s.message() != said) log::info("a standby waits: {}", said = s.message());
    http->put(row, clock.monotonic());
    clock.sleep(kLook);
  }
  return nullptr;
}

}  // namespace ndtrain::tuner
