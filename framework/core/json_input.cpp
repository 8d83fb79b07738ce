#include "framework/core/json_input.h"

#include <algorithm>

#include "framework/core/json.h"

namespace ndtrain {
namespace {

constexpr size_t kWhy = 200;  // bytes of what the parser says, which has some of the text in it

// Of brackets outside of strings; of a text that is no JSON, some number.
int depth_of(std::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Status check_json(std::string_view text, int64_t most) {
  if (static_cast<int64_t>(text.size()) > most) {
    return {Code::kTooLarge, "JSON of " + std::to_string(text.size()) + " bytes, where at most " +
                                 std::to_string(most) + " are read"};
  }
  if (const int depth = depth_of(text); depth > limits::kJsonDepth) {
    return {Code::kTooLarge, "JSON with " + std::to_string(depth) +
                                 " arrays and objects in each other, where at most " +
                                 std::to_string(limits::kJsonDepth) + " are read"};
  }
  return {};
}

Result<Json> read_json(std::string_view text, int64_t most) {
  if (Status s = check_json(text, most); !s.ok()) return s;
  try {
    return parse_json(text);
  } catch (const Json::exception& e) {
    return Status(Code::kCorrupt, "no JSON: " + std::string(e.what()).substr(0, kWhy));
  }
}

}  // namespace ndtrain
