// Diagnostics for people, on stderr and optionally in a file. Results go to stdout, never here.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace ndtrain::log {

enum class Level { kDebug, kInfo, kWarning, kError, kOff };

void set_level(Level level);
void to_file(const std::string& path);  // also, from now on; "" stops it
void write(Level level, const std::string& message);

template <typename... Args>
void debug(fmt::format_string<Args...> f, Args&&... a) {
  write(Level::kDebug, fmt::format(f, std::forward<Args>(a)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> f, Args&&... a) {
  write(Level::kInfo, fmt::format(f, std::forward<Args>(a)...));
}
template <typename... Args>
void warn(fmt::format_string<Args...> f, Args&&... a) {
  write(Level::kWarning, fmt::format(f, std::forward<Args>(a)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> f, Args&&... a) {
  write(Level::kError, fmt::format(f, std::forward<Args>(a)...));
}

}  // namespace ndtrain::log
