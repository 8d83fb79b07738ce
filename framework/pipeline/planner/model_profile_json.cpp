#include "framework/pipeline/planner/model_profile_json.h"

#include <limits>
#include <map>
#include <set>

#include "framework/core/error.h"
#include "framework/core/json.h"
#include "framework/core/json_entries.h"
#include "framework/core/limits.h"
#include "framework/pipeline/planner/graph_text.h"

namespace ndtrain {
namespace {

constexpr int kProfileFormat = 1;

struct NamedBytes {
  const char* name;
  double NodeProfile::*member;
};
constexpr NamedBytes kNodeBytes[] = {{"activation_bytes", &NodeProfile::activation_bytes},
                                     {"saved_bytes", &NodeProfile::saved_bytes},
                                     {"workspace_bytes", &NodeProfile::workspace_bytes},
                                     {"parameter_bytes", &NodeProfile::parameter_bytes},
                                     {"frozen_bytes", &NodeProfile::frozen_bytes}};

constexpr const char* kFixedWorkspace = "fixed_workspace_bytes";  // nothing where it is not there

struct NamedNumber {
  const char* name;
  double ModelProfile::*member;
};
constexpr NamedNumber kProfileNumbers[] = {
    {"optimizer_s_per_byte", &ModelProfile::optimizer_s_per_byte},
    {"moment_bytes_per_byte", &ModelProfile::moment_bytes_per_byte},
    {"peak_bytes", &ModelProfile::peak_bytes}};

struct NamedTime {
  const char* name;
  NodeTime NodeProfile::*member;
};
constexpr NamedTime kNodeTimes[] = {{"forward", &NodeProfile::forward},
                                    {"input_gradient", &NodeProfile::input_gradient},
                                    {"weight_gradient", &NodeProfile::weight_gradient}};
constexpr NamedTime kInputTimes[] = {{"copy", &NodeProfile::forward},
                                     {"load", &NodeProfile::input_gradient}};

class ModelProfileReader {
 public:
  explicit ModelProfileReader(const std::string& file) : entries_("profile", file), file_(file) {}

  ModelProfile read(std::string_view text) {
    const Json top = entries_.whole(text, limits::kProfileFile, kProfileFormat);
    std::set<std::string> names = {"format", "model", "source", "batch", "nodes"};
    for (const NamedNumber& n : kProfileNumbers) names.insert(n.name);
    entries_.check_keys("", top, names);
    profile_.model = entries_.text("model", top["model"]);
    profile_.source = entries_.text("source", top["source"]);
    profile_.batch = entries_.integer("batch", top["batch"], 0, limits::kElements);
    for (const NamedNumber& n : kProfileNumbers) {
      profile_.*n.member = entries_.not_negative(n.name, top[n.name]);
    }
    entries_.check_list("nodes", top["nodes"]);
    for (const Json& node : top["nodes"]) add(node);
    validate(profile_, "profile " + file_);
    return std::move(profile_);
  }

 private:
  void add(const Json& json) {
    const std::string path = "nodes/" + std::to_string(profile_.nodes.size()) + "/";
    NodeProfile n;
    if (json.is_object() && json.contains("description")) {
      n.description = entries_.text(path + "description", json["description"]);
    }
    if (n.is_input()) {
      entries_.check_keys(path, json, {"id", "description", "copy", "load", "activation_bytes"},
                          {"stage"});
      for (const NamedTime& t : kInputTimes) n.*t.member = time(path + t.name + "/", json[t.name]);
      n.activation_bytes =
          entries_.not_negative(path + "activation_bytes", json["activation_bytes"]);
    } else {
      computed(path, json, n);
    }
    n.id = entries_.text(path + "id", json["id"]);
    if (json.contains("stage")) {
      n.stage = static_cast<int>(
          entries_.integer(path + "stage", json["stage"], 0, std::numeric_limits<int>::max()));
    }
    if (!numbers_.emplace(n.id, static_cast<int>(profile_.nodes.size())).second) {
      entries_.fail("has node '", n.id, "' twice");
    }
    profile_.nodes.push_back(std::move(n));
  }

  void computed(const std::string& path, const Json& json, NodeProfile& n) const {
    std::set<std::string> names = {"id", "description", "inputs"};
    for (const NamedTime& t : kNodeTimes) names.insert(t.name);
    for (const NamedBytes& b : kNodeBytes) names.insert(b.name);
    entries_.check_keys(path, json, names, {"stage", kFixedWorkspace});
    for (const NamedTime& t : kNodeTimes) n.*t.member = time(path + t.name + "/", json[t.name]);
    for (const NamedBytes& b : kNodeBytes) {
      n.*b.member = entries_.not_negative(path + b.name, json[b.name]);
    }
    if (json.contains(kFixedWorkspace)) {
      n.fixed_workspace_bytes =
          entries_.not_negative(path + kFixedWorkspace, json[kFixedWorkspace]);
    }
    entries_.check_list(path + "inputs", json["inputs"]);
    for (const Json& input : json["inputs"]) {
      const std::string id = entries_.text(path + "inputs", input);
      const auto it = numbers_.find(id);
      if (it == numbers_.end()) {
        entries_.fail("has '", id, "' in ", path, "inputs, which is no node in front of it");
      }
      n.inputs.push_back(it->second);
    }
  }

  NodeTime time(const std::string& path, const Json& json) const {
    entries_.check_keys(path, json, {"mean_s", "median_s", "deviation_s"}, {"fixed_s"});
    const double fixed =
        json.contains("fixed_s") ? entries_.not_negative(path + "fixed_s", json["fixed_s"]) : 0;
    return {entries_.not_negative(path + "mean_s", json["mean_s"]),
            entries_.not_negative(path + "median_s", json["median_s"]),
            entries_.not_negative(path + "deviation_s", json["deviation_s"]), fixed};
  }

  const JsonEntries entries_;
  const std::string file_;
  ModelProfile profile_;
  std::map<std::string, int> numbers_;  // of nodes, by id
};

Json json_of(const NodeTime& t) {
  Json json = {{"mean_s", t.mean_s}, {"median_s", t.median_s}, {"deviation_s", t.deviation_s}};
  if (t.fixed_s > 0) json["fixed_s"] = t.fixed_s;
  return json;
}

}  // namespace

ModelProfile parse_model_profile(std::string_view json, const std::string& file) {
  return ModelProfileReader(file).read(json);
}

ModelProfile load_model_profile(Fs& fs, const std::string& file) {
  const Result<std::string> text = fs.read(file, limits::kProfileFile);
  if (!text.ok()) throw Error("profile ", file, ": ", text.status().message());
  const size_t first = text->find_first_not_of(" \t\r\n");
  return first != std::string::npos && (*text)[first] == '{' ? parse_model_profile(*text, file)
                                                             : parse_graph_text(*text, file);
}

std::string to_json(const ModelProfile& profile) {
  validate(profile, "profile");
  Json json = {{"format", kProfileFormat},
               {"model", profile.model},
               {"source", profile.source},
               {"batch", profile.batch}};
  for (const NamedNumber& n : kProfileNumbers) json[n.name] = profile.*n.member;
  for (const int number : execution_order(profile)) {
    const NodeProfile& n = profile.nodes[static_cast<size_t>(number)];
    Json node = {{"id", n.id}, {"description", n.description}};
    if (n.is_input()) {
      for (const NamedTime& t : kInputTimes) node[t.name] = json_of(n.*t.member);
      node["activation_bytes"] = n.activation_bytes;
    } else {
      for (const NamedTime& t : kNodeTimes) node[t.name] = json_of(n.*t.member);
      for (const NamedBytes& b : kNodeBytes) node[b.name] = n.*b.member;
      if (n.fixed_workspace_bytes > 0) node[kFixedWorkspace] = n.fixed_workspace_bytes;
      node["inputs"] = Json::array();
      for (const int i : n.inputs) {
        node["inputs"].push_back(profile.nodes[static_cast<size_t>(i)].id);
      }
    }
    if (n.stage) node["stage"] = *n.stage;
    json["nodes"].push_back(std::move(node));
  }
  return json_text_replacing(json, 1) + "\n";
}

}  // namespace ndtrain
