#include "framework/core/json.h"

namespace ndtrain {

Json parse_json(std::string_view text) { return Json::parse(text); }

Json try_parse_json(std::string_view text) {
  return Json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
}

std::string json_text(const Json& json, int indent) { return json.dump(indent); }

std::string json_text_replacing(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace ndtrain
