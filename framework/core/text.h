// Text that is not from us, which may hold anything: a control character in it would move a
// terminal's cursor, or begin a line of a log that looks like ours.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ndtrain {

bool is_utf8(std::string_view text);

// UTF-8 without control characters, C1, line separators and those that turn the direction of
// writing included.
bool is_plain(std::string_view text);

// The same text with what is_plain() refuses written out: \n, \r, \t, else \xHH for each byte. At
// most `most` bytes (3 or more), the last of them "…" where something was cut. Text that has been
// through it stays as it is.
std::string printable(std::string_view text, size_t most = SIZE_MAX);

// A path below some directory: not empty, plain, and without a part that is empty, "." or "..".
bool is_path_below(std::string_view path);

}  // namespace ndtrain
