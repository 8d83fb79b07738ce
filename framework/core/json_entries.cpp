#include "framework/core/json_entries.h"

#include <cmath>

#include "framework/core/json.h"
#include "framework/core/json_input.h"

namespace ndtrain {

Json JsonEntries::whole(std::string_view text, int64_t most, int format) const {
  Result<Json> json = read_json(text, most);
  if (!json.ok()) fail("is ", json.status().message());
  if (json->is_object() && json->contains("format") && (*json)["format"] != format) {
    fail("has format ", json_text((*json)["format"]), "; this program reads format ", format);
  }
  return std::move(*json);
}

void JsonEntries::check_keys(const std::string& path, const Json& object,
                             const std::set<std::string>& names,
                             const std::set<std::string>& more) const {
  if (!object.is_object()) fail("has ", path.empty() ? "no JSON object" : path + " no object");
  for (const auto& [key, value] : object.items()) {
    if (!names.contains(key) && !more.contains(key)) {
      fail("has ", path, key, ", which is no entry");
    }
  }
  for (const std::string& name : names) {
    if (!object.contains(name)) fail("lacks ", path, name);
  }
}

double JsonEntries::number(const std::string& path, const Json& value) const {
  if (!value.is_number()) fail("has ", path, " = ", json_text(value), ", which is no number");
  return value.get<double>();
}

double JsonEntries::not_negative(const std::string& path, const Json& value) const {
  const double n = number(path, value);
  if (!(n >= 0) || !std::isfinite(n)) {
    fail("has ", path, " = ", json_text(value), ", which is no number from 0 up");
  }
  return n;
}

int64_t JsonEntries::integer(const std::string& path, const Json& value, int64_t least,
                             int64_t most) const {
  if (!value.is_number_integer() || value.get<double>() < static_cast<double>(least) ||
      value.get<double>() > static_cast<double>(most)) {
    fail("has ", path, " = ", json_text(value), ", which is no integer from ", least, " to ", most);
  }
  return value.get<int64_t>();
}

std::string JsonEntries::text(const std::string& path, const Json& value) const {
  if (!value.is_string()) fail("has ", path, " = ", json_text(value), ", which is no text");
  return value.get<std::string>();
}

bool JsonEntries::truth(const std::string& path, const Json& value) const {
  if (!value.is_boolean()) {
    fail("has ", path, " = ", json_text(value), ", which is neither true nor false");
  }
  return value.get<bool>();
}

void JsonEntries::check_list(const std::string& path, const Json& value) const {
  if (!value.is_array()) fail("has ", path, " that are not a list");
}

}  // namespace ndtrain
