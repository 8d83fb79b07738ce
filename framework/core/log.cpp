#include "framework/core/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "framework/core/error.h"
#include "framework/core/text.h"

namespace ndtrain::log {
namespace {

struct State {
  std::atomic<Level> level{Level::kInfo};
  spdlog::logger terminal{"stderr", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
  std::mutex mutex;
  std::shared_ptr<spdlog::logger> file;  // under mutex

  State() {
    terminal.set_level(spdlog::level::trace);
    terminal.set_pattern("%v");
    terminal.flush_on(spdlog::level::trace);
  }
};

State& state() {
  static State& s = *new State;  // never destroyed: other statics' destructors may still log
  return s;
}

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kOff:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

void set_level(Level level) { state().level = level; }

void to_file(const std::string& path) {
  std::shared_ptr<spdlog::logger> file;
  if (!path.empty()) {
    try {
      file = std::make_shared<spdlog::logger>(
          "file", std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
    } catch (const spdlog::spdlog_ex& e) {
      throw Error("log: cannot write to ", path, ": ", e.what());
    }
    file->set_level(spdlog::level::trace);
    file->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %-7l %v");
    file->flush_on(spdlog::level::trace);
  }
  const std::lock_guard lock(state().mutex);
  state().file = std::move(file);
}

void write(Level level, const std::string& message) {
  State& s = state();
  if (level == Level::kOff || level < s.level) return;
  const std::string text = printable(message);  // whoever it is from
  std::string line = text;
  if (level == Level::kWarning) line.insert(0, "warning: ");
  if (level == Level::kError) line.insert(0, "error: ");
  s.terminal.log(spdlog_level(level), line);
  std::shared_ptr<spdlog::logger> file;
  {
    const std::lock_guard lock(s.mutex);
    file = s.file;
  }
  if (file) file->log(spdlog_level(level), text);
}

}  // namespace ndtrain::log
