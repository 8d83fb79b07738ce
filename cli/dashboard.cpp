// The Tuner's page in a browser: a link that lets it in once, opened where there is a screen.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "cli/tuner_client.h"
#include "cli/verb.h"
#include "ndp/http/browser_sessions.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

bool has_screen() {
  for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY"}) {
    const char* const value = std::getenv(name);
    if (value && *value) return true;
  }
  return false;
}

// With the desktop's own browser; false where that does not work. Some desktops' xdg-open stays
// until the browser is closed: who lasts for 3 s has opened it.
bool open_in_browser(const std::string& url) {
  std::string program = "xdg-open", address = url;
  std::array<char*, 3> words = {program.data(), address.data(), nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, 2, 1);  // stdout is for our result
  pid_t child = -1;
  const int error = ::posix_spawnp(&child, "xdg-open", &files, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return false;
  for (int i = 0; i < 60; ++i) {
    int how = 0;
    const pid_t ended = ::waitpid(child, &how, WNOHANG);
    if (ended != 0) return ended == child && WIFEXITED(how) && WEXITSTATUS(how) == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

std::string url_of(const std::string& address) {
  if (address.starts_with("unix:")) {
    throw UsageError("--http " + address + ": browsers reach no unix sockets; name a HOST:PORT");
  }
  std::string url = address.find("://") == std::string::npos ? "http://" + address : address;
  while (url.ends_with('/')) url.pop_back();
  return url;
}

}  // namespace

void declare_dashboard(ArgsSpec& args) {
  args.flag("no-open", "print the link, and leave opening it to you");
  declare_http(args);
}

int run_dashboard(Context& context, const Args& args) {
  const std::string base = url_of(args.required("http"));
  const Json link = TunerClient(args).post("/login");
  const std::string url = base + link.at("path").get<std::string>();
  const int64_t seconds = link.at("seconds");
  if (seconds > 0) {
    context.progress().say("good once, within " + std::to_string(seconds) +
                           " s; then that browser is signed in for " +
                           std::to_string(kBrowserSession.count()) + " hours");
  }
  const bool opened = !args.on("no-open") && has_screen() && open_in_browser(url);
  context.print({{"url", url}, {"seconds", seconds}, {"opened", opened}}, url + "\n");
  return kOk;
}

}  // namespace ndtrain::cli
