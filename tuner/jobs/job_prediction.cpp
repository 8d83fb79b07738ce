#include "tuner/jobs/job_prediction.h"

#include "framework/core/json.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// What decides how long a photo takes.
std::string settings_of(const JobSpec& spec) {
  Json json = parse_json(spec.text());
  for (const char* key :
       {"model", "stores", "store_timeout", "lost_after", "allow_missing", "seed", "collection",
        "memory", "disk", "publish", "promote", "why", "predicted"}) {
    json.erase(key);
  }
  return json_text(json);
}

// Photo for photo; empty where that report says too little.
Json scaled(const Json& report, uint64_t photos) {
  const auto then = report.value("photos", uint64_t{0});
  Json stages = Json::object();
  if (then == 0) return stages;
  const double times = static_cast<double>(photos) / static_cast<double>(then);
  for (const char* stage : kPredictedStages) {
    if (report.contains(stage)) stages[stage] = report[stage].get<double>() * times;
  }
  return stages;
}

}  // namespace

std::string prediction_of(const JobRecord& job, uint64_t photos,
                          const std::map<uint64_t, JobRecord>& jobs) {
  Json prediction = Json::object();
  if (!job.spec.predicted.empty()) {
    prediction = job.spec.predicted;
    prediction["by"] = "its profile";
    return json_text(prediction);
  }
  const std::string settings = settings_of(job.spec);
  for (auto it = jobs.rbegin(); it != jobs.rend(); ++it) {
    const auto& [id, earlier] = *it;
    const bool like = id != job.id && earlier.state == JobState::kDone && earlier.readable &&
                      earlier.spec.kind == job.spec.kind && earlier.spec.task == job.spec.task &&
                      settings_of(earlier.spec) == settings;
    if (!like) continue;
    const Json result = parse_json(earlier.result);
    if (!result.contains("report")) continue;
    prediction = scaled(result["report"], photos);
    if (prediction.empty()) continue;
    prediction["by"] = "job " + std::to_string(id);
    break;
  }
  return json_text(prediction);
}

std::string why_unpredicted(const JobSpec& spec) {
  if (spec.kind != JobKind::kFinetune) {
    return "no " + std::string(name_of(spec.kind)) +
           " with these settings was done before that says what a photo takes";
  }
  const std::string before =
      spec.mode == JobMode::kNdpipe
          ? "no fine-tuning with this model, cut and batch was done before whose stores made "
            "features of half of its photos"
          : "no fine-tuning with these settings was done before";
  return before +
         ", so what a photo takes is not known; job submit finetune --profile auto measures it, "
         "and --auto PROFILE has it of a file";
}

}  // namespace ndtrain::tuner
