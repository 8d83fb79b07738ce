#include "tuner/plan/plan_profile.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/core/error.h"
#include "framework/core/json.h"
#include "framework/core/limits.h"

namespace ndtrain::tuner {
namespace {

constexpr int kFormat = 1;

void add_machine(std::vector<NamedInput>& to, const std::string& role, Machine& m, bool required) {
  to.push_back({role + "/cores", "", &m.cores, required});
  to.push_back({role + "/core_speed", "", &m.core_speed, false});
  to.push_back({role + "/accelerators", "", &m.accelerators, false});
  to.push_back({role + "/accelerator_speed", "", &m.accelerator_speed, false});
  to.push_back({role + "/dollars_per_hour", "", &m.dollars_per_hour, false});
  to.push_back({role + "/busy_watts", "", &m.busy_watts, false});
  to.push_back({role + "/idle_watts", "", &m.idle_watts, false});
}

void add_cut(std::vector<NamedInput>& to, const std::string& path, CutCost& c) {
  to.push_back({path + "feature_bytes", c.name, &c.feature_bytes, true});
  to.push_back({path + "extractor_bytes", c.name, &c.extractor_bytes, true});
  to.push_back({path + "head_bytes", c.name, &c.head_bytes, true});
  to.push_back({path + "extract_s", c.name, &c.extract_s, true});
  to.push_back({path + "train_s", c.name, &c.train_s, true});
  to.push_back({path + "evaluate_s", c.name, &c.evaluate_s, true});
}

struct Given {
  double value;
  std::string source;
};

// The shape of a profile's JSON, before it is known what its inputs mean.
class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  Profile read(std::string_view text) {
    if (static_cast<int64_t>(text.size()) > limits::kProfileFile) {
      fail("has ", text.size(), " bytes; at most ", limits::kProfileFile, " are read");
    }
    Json json;
    try {
      json = parse_json(text);
    } catch (const Json::exception& e) {  // also numbers beyond a double
      fail("is not JSON: ", e.what());
    }
    if (!json.is_object()) fail("is not a JSON object");
    if (!json.contains("format")) fail("has no \"format\"; this program reads format ", kFormat);
    if (json["format"] != kFormat) {
      fail("has format ", json_text(json["format"]), "; this program reads format ", kFormat);
    }
    for (const auto& [key, value] : json.items()) section(key, value);
    return fill();
  }

 private:
  template <typename... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw Error("profile ", file_, " ", parts...);
  }

  std::string text(const std::string& path, const Json& value) const {
    if (!value.is_string() || value.get<std::string>().empty()) {
      fail("says ", json_text(value), " for ", path, ", which is to be a text");
    }
    return value.get<std::string>();
  }

  void section(const std::string& key, const Json& value) {
    if (key == "format") return;
    if (key == "name") {
      profile_.name = text(key, value);
    } else if (key == "cuts") {
      if (!value.is_array()) fail("has \"cuts\" that are not a list");
      for (const Json& cut : value) add_cut_object(cut);
    } else {
      inputs(key + "/", value);
    }
  }

  void add_cut_object(const Json& cut) {
    const std::string path = "cuts/" + std::to_string(profile_.inputs.costs.cuts.size()) + "/";
    if (!cut.is_object() || !cut.contains("name")) fail("has no name for ", path);
    Json rest = cut;
    rest.erase("name");
    profile_.inputs.costs.cuts.push_back({.name = text(path + "name", cut["name"])});
    inputs(path, rest);
  }

  void inputs(const std::string& prefix, const Json& object) {
    const std::string form = "{\"value\": NUMBER, \"source\": \"where it is from, or assumed\"}";
    if (!object.is_object()) fail("has ", prefix, " that is not an object of inputs ", form);
    for (const auto& [key, leaf] : object.items()) {
      const std::string path = prefix + key;
      if (!leaf.is_object() || !leaf.contains("value") || leaf.size() > 2) {
        fail("has ", path, ", which is not ", form);
      }
      if (!leaf.contains("source")) fail("does not say the source of ", path, ": ", form);
      const Json& value = leaf["value"];
      const double number = value.is_number() ? value.get<double>() : NAN;
      if (!std::isfinite(number) || number < 0) {
        fail("has ", path, " = ", json_text(value), ", which is not a number from 0 up");
      }
      given_[path] = {number, text(path + "/source", leaf["source"])};
    }
  }

  Profile fill() {
    PlanCosts& costs = profile_.inputs.costs;
    const auto speaks_of = [&](const std::string& role) {
      const auto at = given_.lower_bound(role + "/");
      return at != given_.end() && at->first.starts_with(role + "/");
    };
    if (speaks_of("plain_store")) costs.plain_store.emplace();
    if (speaks_of("plain_tuner")) costs.plain_tuner.emplace();
    if (costs.cuts.empty()) fail("has no \"cuts\"");
    std::string known;
    for (const NamedInput& input : named_inputs(profile_)) {
      const auto at = given_.find(input.path);
      if (at == given_.end()) {
        if (input.required) fail("lacks ", input.path);
        known += (known.empty() ? "" : ", ") + input.path;
        continue;
      }
      *input.value = at->second.value;
      profile_.sources[input.path] = at->second.source;
      given_.erase(at);
    }
    if (!given_.empty()) {
      fail("has ", given_.begin()->first, ", which is no input; of those there are it lacks ",
           known);
    }
    return std::move(profile_);
  }

  const std::string file_;
  Profile profile_;
  std::map<std::string, Given> given_;
};

}  // namespace

std::vector<NamedInput> named_inputs(Profile& p) {
  std::vector<NamedInput> all;
  PlanInputs& in = p.inputs;
  PlanCosts& c = in.costs;
  add_machine(all, "store", c.store, true);
  add_machine(all, "tuner", c.tuner, true);
  if (c.plain_store) add_machine(all, "plain_store", *c.plain_store, true);
  if (c.plain_tuner) add_machine(all, "plain_tuner", *c.plain_tuner, true);
  all.push_back({"photo/bytes", "", &c.photo.bytes, true});
  all.push_back({"photo/prepare_s", "", &c.photo.prepare_s, true});
  all.push_back({"photo/crop_bytes", "", &c.photo.crop_bytes, false});
  all.push_back({"photo/compressed_crop_bytes", "", &c.photo.compressed_crop_bytes, false});
  all.push_back({"photo/crop_s", "", &c.photo.crop_s, false});
  all.push_back({"photo/normalise_s", "", &c.photo.normalise_s, false});
  all.push_back({"photo/compress_s", "", &c.photo.compress_s, false});
  all.push_back({"photo/decompress_s", "", &c.photo.decompress_s, false});
  all.push_back({"job/photos", "", &in.photos, false});
  all.push_back({"job/val_split", "", &in.val_split, false});
  all.push_back({"job/epochs", "", &in.epochs, false});
  all.push_back({"job/bandwidth", "", &in.bandwidth, false});
  all.push_back({"job/store_bandwidth", "", &in.store_bandwidth, false});
  all.push_back({"job/setup_s", "", &c.setup_s, false});
  all.push_back({"job/plans_s", "", &c.plans_s, false});
  all.push_back({"job/epoch_s", "", &c.epoch_s, false});
  all.push_back({"job/finish_s", "", &c.finish_s, false});
  all.push_back({"claims/faster", "", &p.claimed_faster, false});
  all.push_back({"claims/cheaper", "", &p.claimed_cheaper, false});
  for (size_t i = 0; i < c.cuts.size(); ++i) {
    add_cut(all, "cuts/" + std::to_string(i) + "/", c.cuts[i]);
  }
  return all;
}

void Profile::set(double& member, double value, const std::string& source) {
  for (const NamedInput& input : named_inputs(*this)) {
    if (input.value != &member) continue;
    member = value;
    sources[input.path] = source;
    return;
  }
  throw Error("plan: the number that was set is not of this profile");
}

bool is_assumed(std::string_view source) { return source.starts_with("assumed"); }

Profile parse_profile(std::string_view json, const std::string& file) {
  return Reader(file).read(json);
}

Profile load_profile(Fs& fs, const std::string& file) {
  const Result<std::string> text = fs.read(file, limits::kProfileFile);
  if (!text.ok()) throw Error("profile ", file, ": ", text.status().message());
  return parse_profile(*text, file);
}

std::string to_json(const Profile& profile) {
  Profile p = profile;
  Profile plain;
  plain.inputs.costs.cuts.resize(p.inputs.costs.cuts.size());
  if (p.inputs.costs.plain_store) plain.inputs.costs.plain_store.emplace();
  if (p.inputs.costs.plain_tuner) plain.inputs.costs.plain_tuner.emplace();
  const std::vector<NamedInput> inputs = named_inputs(p), defaults = named_inputs(plain);

  Json json = {{"format", kFormat}};
  if (!p.name.empty()) json["name"] = p.name;
  for (size_t i = 0; i < p.inputs.costs.cuts.size(); ++i) {
    json["cuts"][i]["name"] = p.inputs.costs.cuts[i].name;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto source = p.sources.find(inputs[i].path);
    if (source == p.sources.end()) {
      if (*inputs[i].value == *defaults[i].value && !inputs[i].required) continue;
      throw Error("plan: ", inputs[i].path, " has no source");
    }
    json[Json::json_pointer("/" + inputs[i].path)] = {{"value", *inputs[i].value},
                                                      {"source", source->second}};
  }
  return json_text_replacing(json, 2) + "\n";
}

}  // namespace ndtrain::tuner
