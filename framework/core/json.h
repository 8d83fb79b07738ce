// JSON as the program reads and writes its own. The parser and the writer are compiled once, in
// json.cpp: each file that called nlohmann's would compile them again. What others wrote comes
// through framework/core/json_input.h.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "framework/core/json_fwd.h"

namespace ndtrain {

// Throws Json::exception.
Json parse_json(std::string_view text);

// Discarded (is_discarded()) where the text is no JSON.
Json try_parse_json(std::string_view text);

// On one line, or with `indent` spaces a level. Throws Json::type_error where a string is not
// UTF-8.
std::string json_text(const Json& json, int indent = -1);

// The same with U+FFFD for what is not UTF-8.
std::string json_text_replacing(const Json& json, int indent = -1);

}  // namespace ndtrain
