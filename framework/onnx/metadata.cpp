#include "framework/onnx/metadata.h"

#include <set>

#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "framework/core/limits.h"

namespace ndtrain::metadata {
namespace {

void check_distinct(const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) throw Error(kClasses, ": class '", name, "' is there twice");
  }
}

}  // namespace

std::optional<std::string> get(const Model& model, const std::string& key) {
  const auto it = model.metadata.find(key);
  if (it == model.metadata.end()) return std::nullopt;
  return it->second;
}

std::vector<std::string> classes(const Model& model) {
  const std::optional<std::string> text = get(model, kClasses);
  if (!text) return {};
  check_json(*text, limits::kModelFile).or_throw();
  const Json json = try_parse_json(*text);
  std::vector<std::string> names;
  if (!json.is_array()) throw Error(kClasses, ": '", text->substr(0, 80), "' is no JSON array");
  for (const Json& name : json) {
    if (!name.is_string()) throw Error(kClasses, ": ", json_text(name), " is not a name");
    names.push_back(name.get<std::string>());
  }
  check_distinct(names);
  return names;
}

void set_classes(Model& model, const std::vector<std::string>& names) try {
  check_distinct(names);
  model.metadata[kClasses] = json_text(Json(names));
} catch (const Json::exception&) {
  throw Error(kClasses, ": class names must be UTF-8");
}

std::optional<Digest> digest(const Model& model, const std::string& key) {
  const std::optional<std::string> text = get(model, key);
  if (!text) return std::nullopt;
  return digest_from_hex(*text);
}

void set_digest(Model& model, const std::string& key, const Digest& digest) {
  model.metadata[key] = to_hex(digest);
}

}  // namespace ndtrain::metadata
