#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ndp/wire/store_session.h"

namespace ndtrain::ndp {

// Of "ADDRESS" or "ADDRESS,ADDRESS", a Tuner's and its standbys': one has the state at a time, and
// stores and members dial one after the other. Throws Error for an empty one.
std::vector<std::string> tuner_addresses(std::string_view list);

// How long at most between two dials: several may take over from each other at any time.
inline StoreSession::Time last_retry_of(const std::vector<std::string>& addresses) {
  return addresses.size() > 1 ? StoreSession::kLastRetryOfSeveral : StoreSession::kLastRetry;
}

}  // namespace ndtrain::ndp
