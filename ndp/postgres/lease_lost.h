// What becomes of a process that writes to a shared state after another has taken it over, or that
// cannot say any more that nobody has: it ends at once, as after a failed fsync (fsync.h), before
// anything is answered.
#pragma once

#include <string>

namespace ndtrain::ndp::postgres {

inline constexpr int kLeaseLostStatus = 6;  // with which the process exits

using LeaseHandler = void (*)(const std::string& what);

// Logs why and ends the process: no destructor runs. A handler that was set is called first, and
// may throw. Thread-safe.
[[noreturn]] void lease_lost(const std::string& what);
// Returns the one before; null: the process ends. Thread-safe.
LeaseHandler set_lease_handler(LeaseHandler handler);

}  // namespace ndtrain::ndp::postgres
