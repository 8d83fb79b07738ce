#include "framework/parallel/cost_profile_json.h"

#include <limits>
#include <set>

#include "framework/core/error.h"
#include "framework/core/json.h"
#include "framework/core/json_entries.h"
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
  explicit CostReader(const std::string& file) : entries_("cost profile", file) {}

  CostProfile read(std::string_view text) const {
    const Json top = entries_.whole(text, limits::kProfileFile, kCostFormat);
    entries_.check_keys(
        "", top, {"format", "source", "ranks", "optimizer_s_per_element", "collectives", "layers"});
    CostProfile costs;
    if (!top["source"].is_string()) entries_.fail("has a source that is not a text");
    costs.source = top["source"].get<std::string>();
    costs.ranks = static_cast<int>(
        entries_.integer("ranks", top["ranks"], 1, std::numeric_limits<int>::max()));
    costs.optimizer_s_per_element =
        entries_.number("optimizer_s_per_element", top["optimizer_s_per_element"]);
    collectives(top["collectives"], costs);
    layers(top["layers"], costs);
    try {
      validate(costs);
    } catch (const Error& e) {
      entries_.fail("is refused: ", e.what());
    }
    return costs;
  }

 private:
  void collectives(const Json& json, CostProfile& costs) const {
    std::set<std::string> names;
    for (const NamedCollective& c : kCollectives) names.insert(c.name);
    entries_.check_keys("collectives/", json, names);
    for (const NamedCollective& c : kCollectives) {
      const std::string path = "collectives/" + std::string(c.name) + "/";
      const Json& of = json[c.name];
      entries_.check_keys(path, of, {"alpha_s", "beta_s_per_byte"});
      costs.*c.member = {entries_.number(path + "alpha_s", of["alpha_s"]),
                         entries_.number(path + "beta_s_per_byte", of["beta_s_per_byte"])};
    }
  }

  void layers(const Json& json, CostProfile& costs) const {
    entries_.check_list("layers", json);
    for (const Json& layer : json) {
      const std::string path = "layers/" + std::to_string(costs.layers.size()) + "/";
      entries_.check_keys(path, layer, {"elements", "forward_s", "backward_s"});
      costs.layers.push_back(
          {.elements = entries_.integer(path + "elements", layer["elements"], 0, limits::kElements),
           .forward_s = entries_.number(path + "forward_s", layer["forward_s"]),
           .backward_s = entries_.number(path + "backward_s", layer["backward_s"])});
    }
  }

  const JsonEntries entries_;
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
