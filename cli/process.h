// Programs in the background that outlive the one that started them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ndtrain::cli {

// A process by its number and the tick it began at, because numbers are given out again.
struct ProcessId {
  pid_t pid = 0;
  uint64_t began = 0;
};

// This program with `words`, in a session of its own, its output appended to `log`. Throws Error.
ProcessId start_in_background(const std::vector<std::string>& words, const std::string& log);

bool is_running(const ProcessId& process);
void ask_to_stop(const ProcessId& process);  // SIGTERM, if it is running

}  // namespace ndtrain::cli
