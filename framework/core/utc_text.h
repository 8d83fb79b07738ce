// Points in time as people read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ndtrain {

std::string utc_text(int64_t unix_seconds);  // "2026-11-21 17:40:00 UTC"
std::optional<int64_t> from_utc_text(std::string_view text);

}  // namespace ndtrain
