#include "framework/pipeline/planner/pipeline_plan.h"

#include <set>

#include "framework/core/error.h"
#include "framework/core/json.h"
#include "framework/core/json_entries.h"
#include "framework/core/limits.h"

namespace ndtrain {
namespace {

constexpr int kPlanFormat = 1;

class PlanReader {
 public:
  explicit PlanReader(const std::string& file) : entries_("plan", file) {}

  PipelinePlan read(std::string_view text) {
    const Json top = entries_.whole(text, limits::kProfileFile, kPlanFormat);
    entries_.check_keys("", top,
                        {"format", "model", "costs", "schedule", "sync", "micro_batches", "stages",
                         "seconds", "one_device_s", "data_parallel_s", "states"});
    plan_.model = entries_.text("model", top["model"]);
    plan_.costs = entries_.text("costs", top["costs"]);
    plan_.schedule = entries_.text("schedule", top["schedule"]);
    plan_.sync = entries_.text("sync", top["sync"]);
    plan_.micro_batches =
        entries_.integer("micro_batches", top["micro_batches"], 1, limits::kElements);
    plan_.seconds = entries_.not_negative("seconds", top["seconds"]);
    plan_.one_device_s = entries_.not_negative("one_device_s", top["one_device_s"]);
    plan_.data_parallel_s = entries_.not_negative("data_parallel_s", top["data_parallel_s"]);
    plan_.states = count("states", top["states"], limits::kModelNodes);
    entries_.check_list("stages", top["stages"]);
    for (const Json& stage : top["stages"]) add(stage);
    if (plan_.stages.empty()) entries_.fail("has no stages");
    return std::move(plan_);
  }

 private:
  int count(const std::string& path, const Json& value, int64_t most) const {
    return static_cast<int>(entries_.integer(path, value, 1, most));
  }

  void add(const Json& json) {
    const std::string path = "stages/" + std::to_string(plan_.stages.size()) + "/";
    entries_.check_keys(path, json,
                        {"nodes", "replicas", "versions", "recompute", "seconds", "memory_bytes"});
    PlannedStage stage;
    entries_.check_list(path + "nodes", json["nodes"]);
    for (const Json& node : json["nodes"]) {
      stage.nodes.push_back(entries_.text(path + "nodes", node));
      if (!nodes_.insert(stage.nodes.back()).second) {
        entries_.fail("has node '", stage.nodes.back(), "' twice, the second time in ", path,
                      "nodes");
      }
    }
    if (stage.nodes.empty()) entries_.fail("has ", path, " without nodes: a stage without work");
    stage.replicas = count(path + "replicas", json["replicas"], limits::kRanks);
    stage.versions = count(path + "versions", json["versions"], limits::kPlannedVersions);
    stage.recompute = entries_.truth(path + "recompute", json["recompute"]);
    stage.seconds = entries_.not_negative(path + "seconds", json["seconds"]);
    stage.memory_bytes = entries_.not_negative(path + "memory_bytes", json["memory_bytes"]);
    plan_.stages.push_back(std::move(stage));
  }

  const JsonEntries entries_;
  PipelinePlan plan_;
  std::set<std::string> nodes_;
};

}  // namespace

int PipelinePlan::devices() const {
  int devices = 0;
  for (const PlannedStage& s : stages) devices += s.replicas;
  return devices;
}

std::string PipelinePlan::text() const {
  Json json = {{"format", kPlanFormat},
               {"model", model},
               {"costs", costs},
               {"schedule", schedule},
               {"sync", sync},
               {"micro_batches", micro_batches},
               {"seconds", seconds},
               {"one_device_s", one_device_s},
               {"data_parallel_s", data_parallel_s},
               {"states", states}};
  for (const PlannedStage& s : stages) {
    json["stages"].push_back({{"nodes", s.nodes},
                              {"replicas", s.replicas},
                              {"versions", s.versions},
                              {"recompute", s.recompute},
                              {"seconds", s.seconds},
                              {"memory_bytes", s.memory_bytes}});
  }
  return json_text_replacing(json, 1) + "\n";
}

PipelinePlan parse_pipeline_plan(std::string_view json, const std::string& file) {
  return PlanReader(file).read(json);
}

PipelinePlan load_pipeline_plan(Fs& fs, const std::string& file) {
  const Result<std::string> text = fs.read(file, limits::kProfileFile);
  if (!text.ok()) throw Error("plan ", file, ": ", text.status().message());
  return parse_pipeline_plan(*text, file);
}

}  // namespace ndtrain
