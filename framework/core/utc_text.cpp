#include "framework/core/utc_text.h"

#include <fmt/chrono.h>

#include <ctime>

namespace ndtrain {

std::string utc_text(int64_t unix_seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(unix_seconds));
}

std::optional<int64_t> from_utc_text(std::string_view text) {
  const std::string s(text);
  std::tm t{};
  const char* const end = strptime(s.c_str(), "%Y-%m-%d %H:%M:%S UTC", &t);
  if (!end || *end != '\0') return std::nullopt;
  return timegm(&t);
}

}  // namespace ndtrain
