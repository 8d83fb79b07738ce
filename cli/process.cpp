#include "cli/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "framework/core/error.h"

namespace ndtrain::cli {
namespace {

// What /proc says of a process: its state's letter, how many threads it has, and the tick it began
// at.
struct Seen {
  char state = 0;
  int threads = 0;
  uint64_t began = 0;
};

std::optional<Seen> look(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  std::istringstream rest(text.substr(text.rfind(')') + 1));  // a name may hold spaces
  Seen seen;
  std::string skipped;
  rest >> seen.state;
  for (int field = 4; field < 20; ++field) rest >> skipped;
  rest >> seen.threads >> skipped >> seen.began;
  if (!rest) return std::nullopt;
  return seen;
}

// The attributes and actions of one posix_spawn.
struct Spawn {
  Spawn() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

// This process's, but for TMPDIR.
std::vector<std::string> environment_with(const std::string& temporary) {
  constexpr std::string_view kTemporary = "TMPDIR=";
  std::vector<std::string> all = {std::string(kTemporary) + temporary};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with(kTemporary)) all.emplace_back(*variable);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

// This program with `words`; what an Error says besides them.
ProcessId start(const Spawn& spawn, const std::vector<std::string>& words, const std::string& where,
                char* const* environment = environ) {
  std::vector<std::string> owned = {"ndtrain"};
  owned.insert(owned.end(), words.begin(), words.end());
  ProcessId process;
  const int error = posix_spawn(&process.pid, "/proc/self/exe", &spawn.actions, &spawn.attributes,
                                pointers_to(owned).data(), environment);
  if (error != 0) throw Error("cannot start ndtrain ", words[0], where, ": ", std::strerror(error));
  if (const auto seen = look(process.pid)) process.began = seen->began;
  return process;
}

}  // namespace

ProcessId start_in_background(const std::vector<std::string>& words, const std::string& log) {
  Spawn spawn;
  posix_spawnattr_setflags(&spawn.attributes, POSIX_SPAWN_SETSID);
  posix_spawn_file_actions_addopen(&spawn.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&spawn.actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&spawn.actions, STDOUT_FILENO, STDERR_FILENO);
  return start(spawn, words, " with its output in " + log);
}

ProcessId start_beside(const std::vector<std::string>& words, const std::string& temporary) {
  Spawn spawn;
  posix_spawn_file_actions_addopen(&spawn.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&spawn.actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> environment = environment_with(temporary);
  return start(spawn, words, "", pointers_to(environment).data());
}

std::vector<std::string> own_words() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (!words.empty()) words.erase(words.begin());
  return words;
}

bool is_running(const ProcessId& process) {
  int status = 0;
  (void)waitpid(process.pid, &status, WNOHANG);  // of one that this process started
  const std::optional<Seen> seen = look(process.pid);
  if (!seen || seen->began != process.began) return false;
  // The first thread of a killed process may be dead while others end: until they have, its files
  // are open and its locks are held.
  return (seen->state != 'Z' && seen->state != 'X') || seen->threads > 1;
}

void ask_to_stop(const ProcessId& process) {
  if (is_running(process)) kill(process.pid, SIGTERM);
}

void end_now(const ProcessId& process) {
  if (is_running(process)) kill(process.pid, SIGKILL);
}

void wait_for(const ProcessId& process) {
  int status = 0;
  while (waitpid(process.pid, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace ndtrain::cli
