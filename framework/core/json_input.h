// JSON that others wrote: looked through before a parser sees it, since a parser takes memory for
// each bracket, hundreds of times what the text has.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/core/json_fwd.h"
#include "framework/core/status.h"

namespace ndtrain {
namespace limits {

inline constexpr int64_t kJsonText = int64_t{64} << 10;  // bytes, where nobody says another number
inline constexpr int kJsonDepth = 32;                    // arrays and objects in each other

}  // namespace limits

// Whether a parser may see it. kTooLarge: more than `most` bytes, or deeper than kJsonDepth.
Status check_json(std::string_view text, int64_t most = limits::kJsonText);

// kTooLarge; kCorrupt: it is no JSON.
Result<Json> read_json(std::string_view text, int64_t most = limits::kJsonText);

}  // namespace ndtrain
