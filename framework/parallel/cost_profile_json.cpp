#include "framework/parallel/cost_profile_json.h"

#include <limits>
#include <set>

#include "framework/core/error.h"
#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "framework/core/limits.h"

namespace ndtrain {
namespace {

constexpr int kCostFormat = 1;

struct NamedCollective {
  const char* name;
  CostProfile::Collective CostProfile::*member;
};
constexpr NamedCollective kCollectives[] = {
    {"reduce_scatter", &CostProfile::reduce_scatter}, {"all_gather", &CostProfile::all_gather},
    {"all_reduce", &CostProfile::all_reduce},         {"reduce", &CostProfile::reduce},
    {"broadcast", &CostProfile::broadcast},
};

class CostReader {
 public:
  explicit CostReader(std::string file) : file_(std::move(file)) {}

  CostProfile read(std::string_view text) const {
    const Result<Json> json = read_json(text, limits::kProfileFile);
    if (!json.ok()) fail("is ", json.status().message());
    const Json& top = *json;
    // First, since another format may have other entries.
    if (top.is_object() && top.contains("format") && top["format"] != kCostFormat) {
      fail("has format ", json_text(top["format"]), "; this program reads format ", kCostFormat);
    }
    check_keys("", top,
               {"format", "source", "ranks", "optimizer_s_per_element", "collectives", "layers"});
    CostProfile costs;
    if (!top["source"].is_string()) fail("has a source that is not a text");
    costs.source = top["source"].get<std::string>();
    costs.ranks =
        static_cast<int>(integer("ranks", top["ranks"], 1, std::numeric_limits<int>::max()));
    costs.optimizer_s_per_element =
        number("optimizer_s_per_element", top["optimizer_s_per_element"]);
    collectives(top["collectives"], costs);
    layers(top["layers"], costs);
    try {
      validate(costs);
    } catch (const Error& e) {
      fail("is refused: ", e.what());
    }
    return costs;
  }

 private:
  template <typename... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw Error("cost profile ", file_, " ", parts...);
  }

  // `path` ends in '/', or is empty for the whole.
  void check_keys(const std::string& path, const Json& object,
                  const std::set<std::string>& names) const {
    if (!object.is_object()) fail("has ", path.empty() ? "no JSON object" : path + " no object");
    for (const auto& [key, value] : object.items()) {
      if (!names.contains(key)) fail("has ", path, key, ", which is no entry");
    }
    for (const std::string& name : names) {
      if (!object.contains(name)) fail("lacks ", path, name);
    }
  }

  double number(const std::string& path, const Json& value) const {
    if (!value.is_number()) fail("has ", path, " = ", json_text(value), ", which is no number");
    return value.get<double>();
  }

  int64_t integer(const std::string& path, const Json& value, int64_t least, int64_t most) const {
    if (!value.is_number_integer() || value.get<double>() < static_cast<double>(least) ||
        value.get<double>() > static_cast<double>(most)) {
      fail("has ", path, " = ", json_text(value), ", which is no integer from ", least, " to ",
           most);
    }
    return value.get<int64_t>();
  }

  void collectives(const Json& json, CostProfile& costs) const {
    std::set<std::string> names;
    for (const NamedCollective& c : kCollectives) names.insert(c.name);
    check_keys("collectives/", json, names);
    for (const NamedCollective& c : kCollectives) {
      const std::string path = "collectives/" + std::string(c.name) + "/";
      const Json& of = json[c.name];
      check_keys(path, of, {"alpha_s", "beta_s_per_byte"});
      costs.*c.member = {number(path + "alpha_s", of["alpha_s"]),
                         number(path + "beta_s_per_byte", of["beta_s_per_byte"])};
    }
  }

  void layers(const Json& json, CostProfile& costs) const {
    if (!json.is_array()) fail("has layers that are not a list");
    for (const Json& layer : json) {
      const std::string path = "layers/" + std::to_string(costs.layers.size()) + "/";
      check_keys(path, layer, {"elements", "forward_s", "backward_s"});
      costs.layers.push_back(
          {.elements = integer(path + "elements", layer["elements"], 0, limits::kElements),
           .forward_s = number(path + "forward_s", layer["forward_s"]),
           .backward_s = number(path + "backward_s", layer["backward_s"])});
    }
  }

  const std::string file_;
};

}  // namespace

CostProfile parse_cost_profile(std::string_view json, const std::string& file) {
  return CostReader(file).read(json);
}

CostProfile load_cost_profile(Fs& fs, const std::string& file) {
  const Result<std::string> text = fs.read(file, limits::kProfileFile);
  if (!text.ok()) throw Error("cost profile ", file, ": ", text.status().message());
  return parse_cost_profile(*text, file);
}

std::string to_json(const CostProfile& costs) {
  validate(costs);
  Json json = {{"format", kCostFormat},
               {"source", costs.source},
               {"ranks", costs.ranks},
               {"optimizer_s_per_element", costs.optimizer_s_per_element}};
  for (const NamedCollective& c : kCollectives) {
    const CostProfile::Collective& of = costs.*c.member;
    json["collectives"][c.name] = {{"alpha_s", of.alpha_s},
                                   {"beta_s_per_byte", of.beta_s_per_byte}};
  }
  for (const CostProfile::Layer& layer : costs.layers) {
    json["layers"].push_back({{"elements", layer.elements},
                              {"forward_s", layer.forward_s},
                              {"backward_s", layer.backward_s}});
  }
  return json_text_replacing(json, 1) + "\n";
}

}  // namespace ndtrain
