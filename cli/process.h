// Other processes of this program: in the background, where they outlive it, or beside it.
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

// The same in this session, with nothing to read, and errors where this process has them; what it
// keeps for a while goes into `temporary`, a directory (TMPDIR).
ProcessId start_beside(const std::vector<std::string>& words, const std::string& temporary);

// Words of this process's command line, without the program.
std::vector<std::string> own_words();

bool is_running(const ProcessId& process);
void ask_to_stop(const ProcessId& process);  // SIGTERM, if it is running
void end_now(const ProcessId& process);      // SIGKILL, if it is running; also where it is stopped
void wait_for(const ProcessId& process);     // until one that this process has started ends

}  // namespace ndtrain::cli
