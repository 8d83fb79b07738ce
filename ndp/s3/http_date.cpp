#include "ndp/s3/http_date.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <limits>

namespace ndtrain::ndp {

std::optional<int64_t> parse_http_date(const std::string& text) {
  for (const char* form :
       {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"}) {
    std::tm t{};
    const char* const end = strptime(text.c_str(), form, &t);
    if (end && *end == '\0') return int64_t{timegm(&t)};
  }
  return std::nullopt;
}

int64_t to_nanoseconds(int64_t unix_seconds) {
  constexpr int64_t kUnit = 1'000'000'000,
                    kMostSeconds = std::numeric_limits<int64_t>::max() / kUnit - 1;
  return unix_seconds > kMostSeconds || unix_seconds < -kMostSeconds ? 0 : unix_seconds * kUnit;
}

std::chrono::seconds retry_after(const std::map<std::string, std::string>& headers, int64_t now) {
  const auto told = headers.find("retry-after");
  if (told == headers.end()) return {};
  const std::string& text = told->second;
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size()) {
    const std::optional<int64_t> until = parse_http_date(text);
    if (!until) return {};
    const auto date = headers.find("date");  // the two clocks may differ
    const auto then = date == headers.end() ? std::nullopt : parse_http_date(date->second);
    seconds = *until - then.value_or(now);
  }
  return std::chrono::seconds(std::max<int64_t>(seconds, 0));
}

}  // namespace ndtrain::ndp
