// Rising numbers as the differences between neighbours, each a varint (protobuf's: seven bits a
// byte, low ones first): a byte or two per photo where most of a manifest is named.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"

namespace ndtrain::ndp {

// `numbers` rise strictly; throws Error otherwise. The first is its difference from -1, less one.
std::string pack_numbers(std::span<const uint64_t> numbers);

// kCorrupt when the text is cut short, a number is `end` or above, or a varint is longer than it
// needs to be; kTooLarge beyond `limit` numbers. Untrusted input.
Result<std::vector<uint64_t>> unpack_numbers(std::string_view text, uint64_t end, size_t limit);

}  // namespace ndtrain::ndp
