// A Tuner that waits until the state of another may be taken over: GET /healthz says
// {"status":"standby","term":N,"held_by":"…"}, and nothing else is answered. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/core/clock.h"
#include "ndp/http/guard.h"
#include "tuner/shared_state.h"

namespace ndtrain::tuner {
using namespace ndp;

struct StandbyConfig {
  SharedState::Setting state;
  std::string http;  // "": none
  HttpSecurity http_security = {};
  std::function<HttpSecurity()> read_http_security = {};  // as TunerConfig's
};

// The state once this process has it; null when `stop` came first. Who has it at once answers
// nothing. While the server is away it waits, too. Throws Error.
std::unique_ptr<SharedState> await_state(const StandbyConfig& config, Clock& clock,
                                         const std::function<bool()>& stop);

}  // namespace ndtrain::tuner
