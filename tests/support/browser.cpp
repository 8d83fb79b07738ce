#include "tests/support/browser.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "framework/core/error.h"

namespace ndtrain::support {
namespace {

using std::chrono::steady_clock;

// The page that was asked has gone, another one comes.
struct Navigated : Error {
  using Error::Error;
};

constexpr const char* kProgram = "/usr/bin/chromium";
constexpr std::chrono::seconds kPatience{30};
constexpr int kHears = 3, kSays = 4;  // the browser's own descriptors

// Its descriptors are above those that the browser is given.
std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw Error("browser: no pipe");
  for (int& end : ends) {
    const int high = ::fcntl(end, F_DUPFD_CLOEXEC, 10);
    ::close(end);
    end = high;
  }
  return ends;
}

pid_t spawn(std::vector<std::string> words, int hears, int says) {
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (const int fd : {0, 1, 2}) {
    posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
  }
  posix_spawn_file_actions_adddup2(&files, hears, kHears);
  posix_spawn_file_actions_adddup2(&files, says, kSays);
  posix_spawnattr_t group;
  posix_spawnattr_init(&group);
  posix_spawnattr_setflags(&group, POSIX_SPAWN_SETPGROUP);
  pid_t child = -1;
  const int error = ::posix_spawn(&child, kProgram, &files, &group, argv.data(), environ);
  posix_spawnattr_destroy(&group);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw Error("browser: ", kProgram, " does not start");
  return child;
}

std::string from_base64(const std::string& text) {
  std::string bytes;
  uint32_t bits = 0;
  int n = 0;
  for (const char c : text) {
    const std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t digit = digits.find(c);
    if (digit == digits.npos) break;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    n += 6;
    if (n >= 8) bytes += static_cast<char>(bits >> (n -= 8) & 0xff);
  }
  return bytes;
}

}  // namespace

std::string Browser::lacking() {
  return ::access(kProgram, X_OK) == 0 ? "" : "needs Chromium: apt-get install chromium";
}

Browser::Browser(const std::vector<std::string>& switches) {
  const auto [their_in, to] = make_pipe();
  const auto [from, their_out] = make_pipe();
  std::vector<std::string> words = {kProgram,
                                    "--headless",
                                    "--no-sandbox",
                                    "--disable-gpu",
                                    "--disable-dev-shm-usage",
                                    "--disable-extensions",
                                    "--no-first-run",
                                    "--disable-background-networking",
                                    "--disable-component-update",
                                    "--hide-scrollbars",
                                    "--user-data-dir=" + profile_.path(),
                                    "--remote-debugging-pipe"};
  words.insert(words.end(), switches.begin(), switches.end());
  words.emplace_back("about:blank");
  process_ = spawn(std::move(words), their_in, their_out);
  ::close(their_in);
  ::close(their_out);
  to_ = to;
  from_ = from;
  const nlohmann::json page = call("Target.createTarget", {{"url", "about:blank"}});
  session_ = call("Target.attachToTarget",
                  {{"targetId", page["targetId"]}, {"flatten", true}})["sessionId"];
  for (const char* domain : {"Page", "Runtime", "Log"}) call(std::string(domain) + ".enable");
  size(1200, 900);
}

Browser::~Browser() {
  ::close(to_);
  ::close(from_);
  ::kill(-process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

nlohmann::json Browser::hear() {
  const auto until = steady_clock::now() + kPatience;
  for (size_t end = 0; (end = heard_.find('\0')) == heard_.npos;) {
    pollfd p{.fd = from_, .events = POLLIN, .revents = 0};
    const auto rest =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - steady_clock::now());
    std::array<char, 65536> bytes;
    if (rest.count() <= 0 || ::poll(&p, 1, static_cast<int>(rest.count())) <= 0) {
      throw Error("browser: it says nothing any more");
    }
    const ssize_t n = ::read(from_, bytes.data(), bytes.size());
    if (n <= 0) throw Error("browser: it has ended");
    heard_.append(bytes.data(), static_cast<size_t>(n));
  }
  const size_t end = heard_.find('\0');
  nlohmann::json message = nlohmann::json::parse(heard_.substr(0, end));
  heard_.erase(0, end + 1);
  return message;
}

void Browser::note(const nlohmann::json& event) {
  const std::string method = event.value("method", "");
  if (method == "Runtime.exceptionThrown") {
    complaints_.push_back(event["params"]["exceptionDetails"].dump());
  } else if (method == "Log.entryAdded") {
    const nlohmann::json& entry = event["params"]["entry"];
    // A 404 is an answer like others.
    if (entry["level"] == "error" && entry["source"] != "network") {
      complaints_.push_back(entry["text"]);
    }
  } else if (method == "Runtime.consoleAPICalled" && event["params"]["type"] == "error") {
    complaints_.push_back(event["params"]["args"].dump());
  }
}

nlohmann::json Browser::call(const std::string& method, const nlohmann::json& params) {
  nlohmann::json message = {{"id", ++calls_}, {"method", method}};
  if (!params.is_null()) message["params"] = params;
  if (!session_.empty()) message["sessionId"] = session_;
  const std::string text = message.dump() + '\0';
  if (::write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw Error("browser: it does not listen");
  }
  for (;;) {
    const nlohmann::json answer = hear();
    if (answer.value("id", int64_t{0}) != calls_) {
      note(answer);
      continue;
    }
    if (answer.contains("error")) {
      const std::string error = answer["error"].dump();
      if (error.find("navigated") != std::string::npos) throw Navigated(method, ": ", error);
      throw Error(method, ": ", error);
    }
    return answer["result"];
  }
}

void Browser::size(int width, int height) {
  call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}});
}

void Browser::dark(bool on) {
  const nlohmann::json scheme = {{"name", "prefers-color-scheme"},
                                 {"value", on ? "dark" : "light"}};
  call("Emulation.setEmulatedMedia", {{"features", nlohmann::json::array({scheme})}});
}

void Browser::open(const std::string& url) { call("Page.navigate", {{"url", url}}); }

nlohmann::json Browser::value(const std::string& expression) {
  const nlohmann::json r =
      call("Runtime.evaluate",
           {{"expression", expression}, {"awaitPromise", true}, {"returnByValue", true}});
  if (r.contains("exceptionDetails")) {
    throw Error(expression, ": ", r["exceptionDetails"].dump());
  }
  return r["result"].value("value", nlohmann::json());
}

bool Browser::await(const std::string& expression) {
  const auto until = steady_clock::now() + kPatience;
  while (steady_clock::now() < until) {
    try {
      if (value("Boolean(" + expression + ")") == true) return true;
    } catch (const Navigated&) {  // the next page is asked
      continue;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

void Browser::press(const std::string& key) {
  nlohmann::json event = {{"type", "keyDown"}, {"key", key}};
  if (key.size() == 1) event["text"] = key;
  if (key == "Enter") event["text"] = "\r";
  call("Input.dispatchKeyEvent", event);
  call("Input.dispatchKeyEvent", {{"type", "keyUp"}, {"key", key}});
}

void Browser::type(const std::string& text) { call("Input.insertText", {{"text", text}}); }

std::string Browser::screenshot() {
  return from_base64(call("Page.captureScreenshot", {{"format", "png"}})["data"]);
}

}  // namespace ndtrain::support
