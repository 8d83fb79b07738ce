// Points in time as HTTP headers say them (RFC 9110, 5.6.7 and 10.2.3).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace ndtrain::ndp {

// Unix seconds; of any of the three forms: "Sun, 06 Nov 1994 08:49:37 GMT",
// "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994".
std::optional<int64_t> parse_http_date(const std::string& text);

// 0 for what 64 bits do not hold.
int64_t to_nanoseconds(int64_t unix_seconds);

// How long Retry-After asks to wait, in seconds or until a date: that of the answer's Date, or of
// `now` (Unix seconds) where it has none. Not below 0, and 0 where nothing is said.
std::chrono::seconds retry_after(const std::map<std::string, std::string>& headers, int64_t now);

}  // namespace ndtrain::ndp
