// CBOR that others wrote: looked through before a parser makes values of it, since a parser calls
// itself for each array and object.
#pragma once

#include <string_view>

#include "framework/core/json_fwd.h"
#include "framework/core/status.h"

namespace ndtrain {

// kTooLarge: deeper than limits::kJsonDepth; kCorrupt: it is no CBOR.
Result<Json> read_cbor(std::string_view bytes);

}  // namespace ndtrain
