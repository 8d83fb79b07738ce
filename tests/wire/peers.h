// A store and a Tuner as tests of their sessions begin with them.
#pragma once

#include <cstdint>
#include <string>

#include "ndp/wire/protocol.h"
#include "ndp/wire/tuner_sessions.h"

namespace ndtrain::ndp {

inline wire::Hello hello(const std::string& store, uint64_t incarnation = 1) {
  wire::Hello h;
  h.set_store(store);
  h.set_incarnation(incarnation);
  h.set_version("0.1.0");
  return h;
}

inline TunerSessions tuner(uint64_t term = 7) {
  return TunerSessions({.id = "tuner", .term = term}, kHeartbeat, kWindow);
}

}  // namespace ndtrain::ndp
