// JSON files that say themselves whether they are as they were written: a "checksum" over all else
// stands in them, so that a bit that flipped on the disk is found when they are read.
#pragma once

#include <string>
#include <string_view>

#include "framework/core/json.h"

namespace ndtrain {

// The text of a file with this object, indented for people or, with -1, in one line.
std::string checksummed(Json object, int indent = 2);

// Whether a key is that of the checksum, or was before a bit of it became another.
bool is_checksum_key(std::string_view key);

// The value without its checksum. Throws Error, which does not name the file, when the text is no
// JSON, or its checksum or a bit of that key is wrong; a text without one, of earlier programs, is
// taken as it is.
Json verified(std::string_view text);

}  // namespace ndtrain
